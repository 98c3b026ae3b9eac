// Shards cut out of part of a batch: the same as out of all of it.

#include <gtest/gtest.h>
#include <lockstep/mirrored.h>

#include "input/shares.h"
#include "models.h"

namespace portion_test {

using namespace lockstep;
using lockstep::detail::ShardsOf;
using tests::identical;
using torch::Tensor;

/// Rows, a mask that is the same for all, a state with its rows in the second dimension, texts.
struct Mixed {
  Tensor rows;
  Whole<Tensor> mask;
  Along<Tensor> state;
  List<std::string> texts;
  std::int64_t bucket = 0;
  auto tensors() { return std::tie(rows, mask, state, texts); }
};

Mixed mixed(std::int64_t rows) {
  std::vector<std::string> texts;
  for (std::int64_t i = 0; i < rows; ++i) texts.push_back(std::to_string(i));
  return {torch::arange(rows * 3).view({rows, 3}), whole(torch::arange(5)),
          along(1, torch::arange(2 * rows * 4).view({2, rows, 4})), list(texts), 7};
}

torch::data::Example<> pictures(std::int64_t rows) {
  torch::manual_seed(3);
  const Tensor data = torch::rand({rows, 3, 5, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  return {data, torch::randint(5, {rows})};
}

/// A batch that cuts itself.
struct Own {
  Tensor rows;
  Own shard(int i, int n) const { return {batch::part(rows, i, n)}; }
};

static_assert(lockstep::detail::kPortionable<Mixed>);
static_assert(lockstep::detail::kPortionable<std::vector<torch::data::Example<>>>);
static_assert(lockstep::detail::kPortionable<std::pair<Tensor, Whole<Own>>>);
static_assert(!lockstep::detail::kPortionable<Own>);
static_assert(!lockstep::detail::kPortionable<std::pair<Tensor, Own>>);
static_assert(!lockstep::detail::kPortionable<std::vector<Tensor>>);
static_assert(!lockstep::detail::kPortionable<std::vector<std::int64_t>>);

TEST(BatchPart, SomeRowsAreCutOutOfEveryPart) {
  const Mixed part = batch::part(mixed(6), RowRange{2, 5});
  EXPECT_TRUE(torch::equal(part.rows, torch::arange(6, 15).view({3, 3})));
  EXPECT_TRUE(torch::equal(part.mask.value, torch::arange(5)));
  EXPECT_TRUE(torch::equal(part.state.value, mixed(6).state.value.narrow(1, 2, 3)));
  EXPECT_EQ(part.texts.items, (std::vector<std::string>{"2", "3", "4"}));
  EXPECT_EQ(part.bucket, 7);
  EXPECT_EQ(batch::part(torch::arange(6), RowRange{4, 4}).numel(), 0);
  const std::pair with_own(torch::arange(6), whole(Own{torch::arange(4)}));
  EXPECT_EQ(batch::part(with_own, RowRange{1, 3}).second.value.rows.size(0), 4);
}

/// Loads every shard of a share from its portion, and the same shards from the whole batch.
template <class Batch>
void expect_same_shards(const Batch& batch) {
  for (const auto& shares : tests::all_shares())
    for (const Share& share : shares) {
      const Portion portion{share, batch::rows(batch)};
      const bool nothing = portion.range().empty();
      const Batch own = nothing ? Batch{} : batch::part(batch, portion.range());
      ShardsOf<Batch> all(batch, share.shards), some(own, share.shards, portion);
      for (int shard = 0; shard < share.shards; ++shard) {
        if (shard < share.first || shard >= share.end) {
          EXPECT_THROW(some.load(shard, torch::kCPU), std::logic_error);
          continue;
        }
        EXPECT_EQ(some.load(shard, torch::kCPU), all.load(shard, torch::kCPU));
        if (nothing) continue;
        EXPECT_TRUE(identical(some.part_at(shard), all.part_at(shard)));
        if constexpr (std::is_same_v<Batch, Mixed>) {
          EXPECT_EQ(some.part_at(shard).texts.items, all.part_at(shard).texts.items);
        }
        batch::for_each_tensor(some.part_at(shard), [](const Tensor& tensor) {
          EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % 64, 0U);
        });
      }
    }
}

TEST(PortionOfABatch, HasTheShardsOfTheWholeBatch) {
  for (const std::int64_t rows : {1, 3, 7, 16}) {
    expect_same_shards(mixed(rows));
    expect_same_shards(pictures(rows));
    std::vector<torch::data::Example<>> items;
    for (std::int64_t i = 0; i < rows; ++i)
      items.emplace_back(torch::full({i + 1}, i), torch::tensor(i));
    expect_same_shards(items);
  }
}

/// The losses and gradients of all shards, from what each share has made.
std::vector<Tensor> trained(models::ConvNet& net, const torch::data::Example<>& batch,
                            const std::vector<Share>& shares) {
  std::vector<Tensor> results;
  for (const Share& share : shares) {
    const Portion portion{share, batch.data.size(0)};
    const auto own = batch::part(batch, portion.range());
    ShardsOf<torch::data::Example<>> shards(own, share.shards, portion);
    for (int shard = share.first; shard < share.end; ++shard) {
      shards.load(shard, torch::kCPU);
      const auto& rows = shards.part_at(shard);
      net.zero_grad();
      const Tensor loss = torch::cross_entropy_loss(net.forward(rows.data), rows.target);
      loss.backward();
      results.push_back(loss.detach());
      for (const Tensor& parameter : net.parameters()) results.push_back(parameter.grad().clone());
    }
  }
  return results;
}

TEST(PortionOfABatch, TrainsToTheSameBits) {
  torch::manual_seed(1);
  models::ConvNet net;
  torch::manual_seed(2);
  const torch::data::Example<> batch{torch::rand({22, 2, 5, 5}), torch::randint(5, {22})};
  for (const auto& shares : {tests::shares_of(4, {2}), tests::shares_of(4, {1, 2})}) {
    const auto expected = trained(net, batch, {{4, 0, 4}}), found = trained(net, batch, shares);
    EXPECT_TRUE(identical(found, expected));
  }
}

TEST(PortionOfABatch, IsRefusedWhereItIsNotWhatItSays) {
  const auto batch = pictures(8);
  using Shards = ShardsOf<torch::data::Example<>>;
  EXPECT_THROW(Shards(batch, 4, Portion{{4, 0, 2}, 8}), ConfigError);        // 8 rows, not 4
  EXPECT_THROW(Shards(batch, 4, Portion{{4, 0, 0}, 8}), ConfigError);        // nor none
  EXPECT_THROW(Shards(batch, 4, Portion{{2, 0, 1}, 16}), std::logic_error);  // other shards
  EXPECT_THROW(Shards(batch, 4, Portion{{4, 2, 5}, 8}), std::logic_error);
  const Own own{torch::arange(4)};
  EXPECT_THROW(ShardsOf<Own>(own, 4, Portion{{4, 0, 2}, 8}), std::logic_error);
  const std::vector<Tensor> several{torch::arange(4), torch::arange(4)};
  EXPECT_THROW(ShardsOf<std::vector<Tensor>>(several, 4, Portion{{4, 0, 2}, 8}), std::logic_error);
}

/// One process computes all shards here, and the batch has only half of them.
TEST(PortionOfABatch, IsNeverTrainedOnAsIfItWereTheWhole) {
  Mirrored<models::Mlp> towers({.method = {.shards = 4}, .where = {.devices = cpu_devices(2)}});
  const models::Batch batch = models::vectors(0);
  const Portion half{{4, 0, 2}, batch.first.size(0)};
  const auto own = batch::part(batch, half.range());
  const auto step = [&] { towers.step(towers.stage(own, half), models::CrossEntropy{}); };
  EXPECT_ANY_THROW(step());
  EXPECT_EQ(towers.steps(), 0);
  const Portion all{{4, 0, 4}, batch.first.size(0)};
  EXPECT_EQ(towers.step(towers.stage(batch, all), models::CrossEntropy{}).rows,
            batch.first.size(0));
}

}  // namespace portion_test
