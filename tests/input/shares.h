#pragma once

// What every input has to hold to when several processes share its batches.

#include <gtest/gtest.h>
#include <lockstep/batch.h>
#include <lockstep/stream.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::tests {

/// The shares of `shards` shards that end at these; the last ends with the batch.
inline std::vector<Share> shares_of(int shards, const std::vector<int>& ends) {
  std::vector<Share> shares;
  int first = 0;
  for (const int end : ends) {
    shares.push_back({shards, first, end});
    first = end;
  }
  shares.push_back({shards, first, shards});
  return shares;
}

/// By two and by three processes: evenly, unevenly, with one that has nothing; in more shards than
/// a batch has rows.
inline std::vector<std::vector<Share>> all_shares() {
  return {shares_of(4, {2}),    shares_of(4, {3}),    shares_of(4, {4}),
          shares_of(4, {1, 2}), shares_of(5, {2, 3}), shares_of(9, {4, 5})};
}

/// A source that counts how often each item is made; copies count together.
template <class S>
class Counted {
 public:
  explicit Counted(S source)
      : source_(std::move(source)),
        made_(std::make_shared<std::vector<std::atomic<int>>>(
            static_cast<std::size_t>(source_.size()))) {}

  std::int64_t size() const { return source_.size(); }

  auto at(std::int64_t epoch, std::int64_t index) const {
    count(index);
    return source_.at(epoch, index);
  }

  auto gather(std::int64_t epoch, std::span<const std::int64_t> indices) const requires
      requires(const S& source) {
    source.gather(epoch, indices);
  }
  {
    for (const std::int64_t index : indices) count(index);
    return source_.gather(epoch, indices);
  }

  /// How often each item was made since the last call.
  std::vector<int> taken() const {
    std::vector<int> counts;
    for (std::atomic<int>& each : *made_) counts.push_back(each.exchange(0));
    return counts;
  }

 private:
  void count(std::int64_t index) const { ++(*made_)[static_cast<std::size_t>(index)]; }

  S source_;
  std::shared_ptr<std::vector<std::atomic<int>>> made_;
};

/// The same bits, and the same layout in memory.
inline bool identical(const torch::Tensor& a, const torch::Tensor& b) {
  return a.dtype() == b.dtype() && a.strides() == b.strides() && torch::equal(a, b);
}
/// Of batches: all of their tensors. Of vectors of numbers: those.
template <class T>
bool identical(const T& a, const T& b) {
  if constexpr (!Shardable<T>) {
    return a == b;
  } else {
    std::vector<torch::Tensor> all, others;
    lockstep::detail::for_each_tensor(
        a, [&](const auto& tensor, const auto&) { all.push_back(tensor); });
    lockstep::detail::for_each_tensor(
        b, [&](const auto& tensor, const auto&) { others.push_back(tensor); });
    return std::ranges::equal(
        all, others,
        [](const torch::Tensor& one, const torch::Tensor& other) { return identical(one, other); });
  }
}

/// Rows of a batch, as an input counts them, and some of them.
template <class Batch>
std::int64_t rows_in(const Batch& batch) {
  if constexpr (Shardable<Batch>)
    return batch::rows(batch);
  else
    return static_cast<std::int64_t>(batch.size());
}
template <class Batch>
Batch some_rows(const Batch& batch, const RowRange& rows) {
  if constexpr (Shardable<Batch>)
    return batch::part(batch, rows);
  else
    return Batch(batch.begin() + rows.begin, batch.begin() + rows.end);
}

/// What was made of `whole` is the portion that it says to be, bit for bit.
template <class Batch>
void expect_portion(const Batch& whole, const Batch& made, const Portion& portion,
                    const Share& share) {
  if (share.whole()) {
    EXPECT_TRUE(portion.whole());
    EXPECT_TRUE(identical(made, whole));
    return;
  }
  ASSERT_EQ(portion.share, share);
  ASSERT_EQ(portion.rows, rows_in(whole));
  ASSERT_EQ(rows_in(made), portion.range().size());
  if (portion.range().empty()) return;
  EXPECT_TRUE(identical(made, some_rows(whole, portion.range())))
      << "shards " << share.first << " to " << share.end << " of " << share.shards;
}

/// Goes through make() once whole, and once by each share: the same positions, and rows that come
/// to the whole. `counted`, whose items make() goes through, makes each of them as often over all
/// shares as for the whole batches.
template <class Make, class S>
void expect_shared(const Make& make, const Counted<S>& counted) {
  using Batch = typename std::decay_t<decltype(*make())>::Item;
  std::vector<Batch> whole;
  std::vector<Position> positions;
  {
    const auto stream = make();
    while (auto batch = stream->next()) {
      EXPECT_TRUE(stream->portion().whole());
      whole.push_back(std::move(*batch));
      positions.push_back(stream->position());
    }
  }
  ASSERT_FALSE(whole.empty());
  const std::vector<int> once = counted.taken();
  for (const std::vector<Share>& shares : all_shares()) {
    std::vector<int> sum(once.size());
    for (const Share& share : shares) {
      const auto stream = make();
      ASSERT_TRUE(stream->share({share.shards, 0, 0}));  // nothing, and from now on
      counted.taken();                                   // what was made ahead is not counted
      ASSERT_TRUE(stream->share(share));
      for (std::size_t i = 0; i < whole.size(); ++i) {
        const auto made = stream->next();
        ASSERT_TRUE(made.has_value());
        expect_portion(whole[i], *made, stream->portion(), share);
        EXPECT_EQ(stream->position(), positions[i]);
      }
      EXPECT_FALSE(stream->next().has_value());
      const std::vector<int> own = counted.taken();
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += own[i];
    }
    EXPECT_EQ(sum, once) << "items were made by no share, or by several";
  }
}

}  // namespace lockstep::tests
