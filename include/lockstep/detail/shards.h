#pragma once

// The shards of a batch, as the engine of Mirrored asks for them.

#include <c10/core/Event.h>
#include <lockstep/batch_device.h>
#include <lockstep/detail/place.h>
#include <lockstep/detail/requirements.h>
#include <lockstep/detail/written.h>
#include <lockstep/loss.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
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

/// Throws unless a batch of so many rows is that portion of one that is cut into `shards`.
void require_portion(const Portion& portion, int shards, std::int64_t rows, bool by_rows);

template <class Batch>
class ShardsOf final : public Shards {
 public:
  /// `batch` is that portion of a batch of `count` shards; only the shards in it can be loaded.
  /// Throws ConfigError for a batch that cannot be cut. It must live on.
  ShardsOf(const Batch& batch, int count, const Portion& portion = {})
      : Shards(count), batch_(batch), portion_(portion), parts_(static_cast<std::size_t>(count)) {
    if constexpr (is_batch<Batch>()) {
      require_portion(portion, count, batch::rows(batch), kPortionable<Batch>);
      if (portion.whole() || !portion.range().empty()) require_same_rows(batch);
    }
  }

  const Batch& part_at(int shard) const { return *parts_[static_cast<std::size_t>(shard)]; }

  std::int64_t load(int shard, const torch::Device& device) override {
    if constexpr (Shardable<Batch>) {
      Batch own = cut_out(shard);
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
  Batch cut_out(int shard) const {
    if constexpr (kPortionable<Batch>)
      if (!portion_.whole()) {
        const RowRange rows = portion_.shard(shard);
        return portion_.range().empty() ? batch_ : batch::part(batch_, rows);
      }
    return batch::part(batch_, shard, count());
  }

  const Batch& batch_;
  const Portion portion_;
  std::vector<std::optional<Batch>> parts_;
};

/// What a step computes: a loss of each shard, or one of the rows that all shards come to.
struct ShardWork {
  using Tensors = std::vector<torch::Tensor>;

  Shards& shards;
  std::function<Loss(Place place, int shard)> forward = nullptr;
  std::function<Tensors(Place place, int shard)> rows = nullptr;  ///< instead of forward, with:
  std::function<Loss(const Tensors& all)> head = nullptr;
  std::string update = "*";  ///< a pattern: the parameters that the step is about
  std::string phase = "";
};

/// What rows(model, shard) returned for each shard, as plain tensors and back.
template <class Rows>
class RowParts {
 public:
  explicit RowParts(int shards) : shapes_(static_cast<std::size_t>(shards)) {}

  /// The tensors of a shard's rows. Keeps the rest; shards on several threads.
  ShardWork::Tensors taken(int shard, Rows rows) {
    ShardWork::Tensors tensors;
    batch::for_each_tensor(rows, [&](torch::Tensor& tensor) {
      tensors.push_back(std::move(tensor));
      tensor = torch::Tensor();
    });
    shapes_[static_cast<std::size_t>(shard)].emplace(std::move(rows));
    return tensors;
  }

  /// The rows of all shards, from their tensors put together.
  Rows joined(const ShardWork::Tensors& tensors) const {
    std::size_t first = 0;
    while (!shapes_[first]) ++first;
    Rows rows = *shapes_[first];
    std::size_t next = 0;
    batch::for_each_tensor(rows, [&](torch::Tensor& tensor) { tensor = tensors.at(next++); });
    return rows;
  }

 private:
  std::vector<std::optional<Rows>> shapes_;  // by shard, without the tensors
};

/// What a loss function returned for so many rows, as a sum with its weight, or a total. Throws
/// ConfigError when it cannot be one.
Loss as_loss(Loss loss, std::int64_t rows);
inline Loss as_loss(const torch::Tensor& mean, std::int64_t rows) {
  return as_loss(Loss::mean(mean), rows);
}

/// The same for the head of a loss over the whole batch: a tensor is the loss itself.
inline Loss as_whole_loss(Loss loss, std::int64_t rows) { return as_loss(std::move(loss), rows); }
inline Loss as_whole_loss(const torch::Tensor& loss, std::int64_t rows) {
  return as_loss(Loss::total(loss), rows);
}

}  // namespace lockstep::detail
