#pragma once

// How a shard gets from one stage to the next, and its gradients back.

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <lockstep/device.h>
#include <lockstep/seconds.h>
#include <torch/torch.h>

#include <any>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace lockstep::strategy {

/// How far the random numbers of a shard have come: those of the device, and those that operators
/// on CPU tensors draw. Undefined: at the beginning.
struct RandomState {
  torch::Tensor device, cpu;
};

/// What a stage hands on of one shard. On its way forth: what the next one computes with; on its
/// way back: the gradients of that, undefined where there is none.
struct Handed {
  bool empty = false;  ///< a shard without rows: nothing else is set
  std::int64_t rows = 0;
  std::vector<torch::Tensor> tensors;
  std::vector<char> differentiable;           ///< forth: by tensor
  std::any rest;                              ///< forth: what the tensors were in
  std::vector<torch::Tensor> buffers;         ///< forth: the model's, as this stage left them
  std::map<std::size_t, torch::Tensor> tied;  ///< back: by parameter, its gradient so far
  RandomState random;
  std::unique_ptr<c10::Event> ready;  ///< on an accelerator: all of it is computed
  Seconds at{};                       ///< the sender's clock
};

/// From one device to its neighbour, for one sender and one receiver. On an accelerator it copies
/// on streams of its own, so that copies run beside what both compute.
class Channel {
 public:
  Channel(const Device& from, const Device& to);

  /// On the sender's thread; does not wait.
  void put(int shard, Handed handed);

  /// On the receiver's thread: waits for the shard. What the receiver enqueues from now on comes
  /// after its arrival. Throws collective::Aborted.
  Handed take(int shard);

  void abort() noexcept;
  void reset();

 private:
  void bring_over(Handed& handed);

  const Device from_, to_;
  std::optional<c10::Stream> out_, in_;  // on an accelerator
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::map<int, Handed> shards_;
  bool aborted_ = false;
};

}  // namespace lockstep::strategy
