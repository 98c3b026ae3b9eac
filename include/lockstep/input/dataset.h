#pragma once

// LibTorch's datasets as input: everything that has get_batch(indices) and size(), with its
// transforms. LibTorch's loaders and samplers are not used: they have no position to go back to.
//
//   auto images = torch::data::datasets::MNIST(folder).map(torch::data::transforms::Stack<>());
//   const auto stream = input::from(images, {.rows = 128, .seed = 1, .prefetch = {.workers = 2}});

#include <lockstep/input/batch.h>
#include <lockstep/input/prefetch.h>

#include <functional>
#include <mutex>

namespace lockstep::input {

struct From {
  std::int64_t rows = 32;  ///< of a batch
  bool shuffle = true;     ///< in an order that belongs to (seed, epoch)
  std::uint64_t seed = 0;  ///< of the order, and of what the dataset draws
  Last last = Last::keep;
  Prefetch prefetch = {};  ///< workers have a copy of the dataset each; also the number of epochs
};

/// Calls `read` with a random stream that belongs to (seed, epoch, index): operators of this thread
/// that are given no generator draw from it.
void with_random_stream(std::uint64_t seed, std::int64_t epoch, std::int64_t index,
                        const std::function<void()>& read);

/// The size of a dataset. Throws ConfigError when it has none.
std::int64_t checked_size(std::optional<std::size_t> size);

/// A dataset as a source, for at most `workers` threads at a time. What a dataset draws belongs to
/// a batch, not to its rows, so batches are whole ones.
template <class Dataset>
class DatasetSource {
 public:
  static constexpr bool kGathersWhole = true;
  using Batch = typename Dataset::BatchType;

  DatasetSource(Dataset dataset, int workers, std::uint64_t seed)
      : size_(checked_size(dataset.size())), seed_(seed), idle_(std::make_unique<Idle>()) {
    if constexpr (std::copy_constructible<Dataset>)
      for (int i = 1; i < workers; ++i) idle_->datasets.push_back(dataset);
    else if (workers > 1)
      throw ConfigError("input::from: a dataset that cannot be copied allows one worker only");
    idle_->datasets.push_back(std::move(dataset));
  }

  std::int64_t size() const { return size_; }
  Batch at(std::int64_t epoch, std::int64_t index) const { return gather(epoch, {&index, 1}); }

  Batch gather(std::int64_t epoch, std::span<const std::int64_t> indices) const {
    const std::vector<std::size_t> numbers(indices.begin(), indices.end());
    std::vector<Dataset> own;
    idle_->move(idle_->datasets, own);
    std::optional<Batch> batch;
    try {
      with_random_stream(seed_, epoch, indices.front(),
                         [&] { batch.emplace(own.front().get_batch(numbers)); });
    } catch (...) {
      idle_->move(own, idle_->datasets);
      throw;
    }
    idle_->move(own, idle_->datasets);
    return std::move(*batch);
  }

 private:
  struct Idle {
    std::mutex mutex;
    std::vector<Dataset> datasets;  // guarded by mutex

    void move(std::vector<Dataset>& source, std::vector<Dataset>& target) {
      const std::scoped_lock lock(mutex);
      target.push_back(std::move(source.back()));
      source.pop_back();
    }
  };

  std::int64_t size_;
  std::uint64_t seed_;
  std::unique_ptr<Idle> idle_;
};

/// The batches of a dataset, epoch after epoch: what its transforms make of `rows` items; without a
/// Stack, a vector of items. Position: {epoch, index}. A batch depends on seed, epoch and index
/// only, as long as the dataset draws with LibTorch's operators and keeps no state.
template <class Dataset>
std::unique_ptr<Stream<typename Dataset::BatchType>> from(Dataset dataset, const From& how = {}) {
  static_assert(
      std::convertible_to<std::vector<std::size_t>, typename Dataset::BatchRequestType>,
      "input::from(dataset): the dataset must have get_batch(indices). One that gives its "
      "examples in an order of its own is a lockstep::Stream, see lockstep/stream.h.");
  DatasetSource<Dataset> source(std::move(dataset), how.prefetch.workers, how.seed);
  if (how.shuffle)
    return prefetch(batch(shuffle(std::move(source), how.seed), how.rows, how.last), how.prefetch);
  return prefetch(batch(std::move(source), how.rows, how.last), how.prefetch);
}

}  // namespace lockstep::input
