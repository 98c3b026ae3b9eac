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

TEST(To, MovesWhatIsWholeAlongOrInAList) {
  const auto moved =
      batch::to(std::tuple(whole(std::vector{some(), some()}), along(1, std::pair(some(), some())),
                           3, list(std::vector{std::pair(some(), 1), std::pair(Tensor(), 2)}),
                           std::map<std::string, Tensor>{{"a", some()}}, std::optional(some())),
                kMeta);
  EXPECT_EQ(tensors_on(std::get<0>(moved), kMeta), 2);
  EXPECT_EQ(tensors_on(std::get<1>(moved), kMeta), 2);
  EXPECT_TRUE(std::get<3>(moved).items[0].first.is_meta());
  EXPECT_EQ(std::get<3>(moved).items[1].second, 2);
  EXPECT_TRUE(std::get<4>(moved).at("a").is_meta());
  EXPECT_TRUE(std::get<5>(moved)->is_meta());
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

/// No batch, but it knows how to move: for lists.
struct Boxes {
  Tensor corners;
  Boxes to(torch::Device device) const { return {corners.to(device)}; }
};

TEST(To, AsksTheItemsOfAList) {
  const auto moved = batch::to(list(std::vector{Boxes{some()}, Boxes{some()}}), kMeta);
  EXPECT_TRUE(moved.items[1].corners.is_meta());
}

TEST(Aligned, MakesShardsDenseAndAligned) {
  const Tensor state = torch::randn({2, 9, 3}), table = torch::randn({9, 16});
  for (const auto& part : batch::split(std::pair(along(1, state), table.narrow(1, 0, 3)), 4)) {
    const auto own = batch::aligned(part);
    for (const Tensor& tensor : {own.first.value, own.second}) {
      EXPECT_TRUE(tensor.is_contiguous());
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % 64, 0U);
    }
    EXPECT_TRUE(torch::equal(own.first.value, part.first.value));
    EXPECT_TRUE(torch::equal(own.second, part.second));
  }
  EXPECT_TRUE(batch::aligned(table.t()).is_alias_of(table));  // dense
  EXPECT_TRUE(batch::aligned(list(std::vector{state.narrow(0, 1, 1)})).items[0].is_contiguous());
}

TEST(Pinned, LeavesTensorsOfADeviceAlone) {
  const Tensor there = torch::empty({2}, kMeta);
  EXPECT_TRUE(batch::pinned(std::pair(there, there)).first.is_same(there));
}

}  // namespace batch_device_test
