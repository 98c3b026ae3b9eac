#pragma once

// The shards of a batch, as the engine of Mirrored asks for them.

#include <c10/core/Event.h>
#include <lockstep/batch_device.h>
#include <lockstep/detail/place.h>
#include <lockstep/detail/requirements.h>
#include <lockstep/loss.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace lockstep::detail {

/// The shards of a global batch, and where each was loaded. A shard is touched by one thread at a
/// time.
class Shards {
 public:
  struct Shard {
    std::optional<torch::Device> device;  ///< where it is; none: not loaded
    std::int64_t rows = 0;
    std::unique_ptr<c10::Event> arrived;  ///< on an accelerator: the copy is done
  };

  explicit Shards(int count) : shards_(static_cast<std::size_t>(count)) {}
  virtual ~Shards() = default;
  Shards(const Shards&) = delete;
  Shards& operator=(const Shards&) = delete;

  int count() const { return static_cast<int>(shards_.size()); }
  Shard& at(int shard) { return shards_[static_cast<std::size_t>(shard)]; }

  /// Cuts out a shard and copies it to a device; returns its rows.
  virtual std::int64_t load(int shard, const torch::Device& device) = 0;
  /// The shard's memory is used on `stream` as well.
  virtual void record(int shard, const c10::Stream& stream) = 0;

 private:
  std::vector<Shard> shards_;
};

template <class Batch>
class ShardsOf final : public Shards {
 public:
  /// Throws ConfigError for a batch that cannot be cut. It must live on.
  ShardsOf(const Batch& batch, int count)
      : Shards(count), batch_(batch), parts_(static_cast<std::size_t>(count)) {
    if constexpr (is_batch<Batch>()) require_same_rows(batch);
  }

  const Batch& part_at(int shard) const { return *parts_[static_cast<std::size_t>(shard)]; }

  std::int64_t load(int shard, const torch::Device& device) override {
    if constexpr (Shardable<Batch>) {
      Batch own = batch::part(batch_, shard, count());
      parts_[static_cast<std::size_t>(shard)].emplace(
          device.is_cpu() ? batch::aligned(std::move(own))
                          : batch::to(batch::pinned(std::move(own)), device));
      return batch::rows(part_at(shard));
    }
    return 0;
  }

  void record(int shard, const c10::Stream& stream) override {
    if constexpr (Shardable<Batch>)
      batch::for_each_tensor(*parts_[static_cast<std::size_t>(shard)], [&](torch::Tensor& tensor) {
        if (tensor.defined()) tensor.record_stream(stream);
      });
  }

 private:
  const Batch& batch_;
  std::vector<std::optional<Batch>> parts_;
};

/// What a step computes: a loss of each shard.
struct ShardWork {
  Shards& shards;
  std::function<Loss(Place place, int shard)> forward;
};

/// What a loss function returned, as a Loss. Throws ConfigError when it cannot be one.
Loss checked(Loss loss);
Loss as_loss(const torch::Tensor& mean, std::int64_t rows);
inline Loss as_loss(const Loss& loss, std::int64_t) { return checked(loss); }

}  // namespace lockstep::detail
