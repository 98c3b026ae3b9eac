#pragma once

// The shards of a batch, as the engine of Mirrored asks for them.

#include <lockstep/batch_device.h>
#include <lockstep/detail/requirements.h>
#include <lockstep/loss.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace lockstep::detail {

struct Staging;

/// What the engine asks of a batch and a model, by shard and tower.
struct ShardWork {
  /// Cuts out a shard and copies it to a device; returns its rows.
  std::function<std::int64_t(int shard, const torch::Device& device)> load;
  /// The shard's memory is used on `stream` as well.
  std::function<void(int shard, const c10::Stream& stream)> record;
  std::function<Loss(int tower, int shard)> forward;
  std::shared_ptr<Staging> staging;  ///< what was loaded before; may be null
};

/// The shards of a batch, where they were loaded.
template <class Batch>
struct Shards {
  /// Throws ConfigError for a batch that cannot be cut.
  Shards(const Batch& whole, int count) : batch(&whole), loaded(static_cast<std::size_t>(count)) {
    if constexpr (is_batch<Batch>()) require_same_rows(whole);
  }

  ShardWork work() {
    return {.load =
                [this](int shard, const torch::Device& device) {
                  auto& own = loaded[static_cast<std::size_t>(shard)];
                  Batch rows_of_it = batch::part(*batch, shard, static_cast<int>(loaded.size()));
                  own.emplace(device.is_cpu()
                                  ? batch::aligned(std::move(rows_of_it))
                                  : batch::to(batch::pinned(std::move(rows_of_it)), device));
                  return batch::rows(*own);
                },
            .record =
                [this](int shard, const c10::Stream& stream) {
                  batch::for_each_tensor(*loaded[static_cast<std::size_t>(shard)],
                                         [&](torch::Tensor& tensor) {
                                           if (tensor.defined()) tensor.record_stream(stream);
                                         });
                },
            .forward = nullptr,
            .staging = staging};
  }

  const Batch* batch;
  std::vector<std::optional<Batch>> loaded;
  std::shared_ptr<Staging> staging;
};

/// What a loss function returned, as a Loss. Throws ConfigError when it cannot be one.
Loss checked(Loss loss);
Loss as_loss(const torch::Tensor& mean, std::int64_t rows);
inline Loss as_loss(const Loss& loss, std::int64_t) { return checked(loss); }

}  // namespace lockstep::detail
