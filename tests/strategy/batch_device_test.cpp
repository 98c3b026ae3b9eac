#include <gtest/gtest.h>
#include <lockstep/batch_device.h>

namespace batch_device_test {

using namespace lockstep;
using torch::kCPU;
using torch::kMeta;
using torch::Tensor;

Tensor some() { return torch::arange(6).view({3, 2}); }

/// The number of tensors in a batch on a device of this kind.
template <class Batch>
int tensors_on(Batch batch, torch::DeviceType kind) {
  int count = 0;
  batch::for_each_tensor(batch, [&](const Tensor& each) { count += each.device().type() == kind; });
  return count;
}

TEST(To, MovesEveryTensorOfEveryBatchType) {
  const torch::data::Example<> example(some(), some());
  const torch::data::TensorExample data_only(some());
  EXPECT_EQ(tensors_on(batch::to(some(), kMeta), kMeta), 1);
  EXPECT_EQ(tensors_on(batch::to(example, kMeta), kMeta), 2);
  EXPECT_EQ(tensors_on(batch::to(data_only, kMeta), kMeta), 1);
  EXPECT_EQ(tensors_on(batch::to(std::pair(some(), example), kMeta), kMeta), 3);
  EXPECT_EQ(tensors_on(batch::to(std::tuple(some(), some(), example), kMeta), kMeta), 4);
  EXPECT_EQ(tensors_on(batch::to(std::array{some(), some()}, kMeta), kMeta), 2);
  EXPECT_EQ(tensors_on(batch::to(std::vector{some(), some(), some()}, kMeta), kMeta), 3);
  EXPECT_EQ(tensors_on(batch::to(std::vector{example, example}, kMeta), kMeta), 4);
  EXPECT_EQ(tensors_on(batch::to(std::vector{data_only}, kMeta), kMeta), 1);
}

struct Sentences {
  Tensor words, lengths;
  std::pair<Tensor, Tensor> more;
  auto tensors() { return std::tie(words, lengths, more); }
};

TEST(To, MovesTheTensorsThatATypeOfOnesOwnOffers) {
  const Sentences batch{some(), some(), {some(), some()}};
  EXPECT_EQ(tensors_on(batch::to(batch, kMeta), kMeta), 4);
  EXPECT_EQ(tensors_on(batch, kCPU), 4);
}

TEST(To, LeavesTheBatchOfTheCallerAlone) {
  const std::pair batch(some(), std::vector{some()});
  const auto moved = batch::to(batch, kMeta);
  EXPECT_EQ(tensors_on(batch, kCPU), 2);
  EXPECT_EQ(tensors_on(moved, kMeta), 2);
}

TEST(To, DoesNotCopyWhatIsThereAlready) {
  const std::pair batch(some(), some());
  EXPECT_TRUE(batch::to(batch, kCPU).second.is_alias_of(batch.second));
}

TEST(To, PassesOverUndefinedTensors) {
  EXPECT_FALSE(batch::to(std::pair(some(), Tensor()), kMeta).second.defined());
  EXPECT_FALSE(batch::pinned(Tensor()).defined());
}

struct Words {
  std::vector<int> lengths;
  Words shard(int, int) const { return *this; }
};

struct MovableWords {
  Tensor tokens;
  MovableWords shard(int i, int n) const { return {batch::part(tokens, i, n)}; }
  MovableWords to(torch::Device device) const { return {tokens.to(device)}; }
};

TEST(To, AsksABatchTypeOfOnesOwn) {
  EXPECT_TRUE(batch::to(MovableWords{some()}, kMeta).tokens.is_meta());
  EXPECT_TRUE(batch::to(std::pair(MovableWords{some()}, some()), kMeta).first.tokens.is_meta());
}

TEST(To, ABatchTypeThatCannotMoveStaysOnTheCpu) {
  EXPECT_EQ(batch::to(Words{{1, 2}}, kCPU).lengths.size(), 2U);
  try {
    batch::to(std::pair(Words{{1, 2}}, some()), kMeta);
    FAIL() << "moved";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("to(torch::Device)"), std::string::npos);
  }
}

TEST(Pinned, LeavesTensorsOfADeviceAlone) {
  const Tensor there = torch::empty({2}, kMeta);
  EXPECT_TRUE(batch::pinned(std::pair(there, there)).first.is_same(there));
}

}  // namespace batch_device_test
