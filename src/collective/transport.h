#pragma once

// How bytes move between towers that each have a memory of their own.
//
// Calls only enqueue work on the towers' communication streams, `streams` by tower, and may come
// from any thread, one at a time. The streams of towers in other processes are not to be used.
//
// What crosses processes is told to both, each time with the end that is in this process. For two
// processes, both are told the same moves between them in the same order.

#include <c10/core/Stream.h>
#include <lockstep/device.h>
#include <lockstep/exchange.h>
#include <torch/torch.h>

#include <memory>
#include <span>
#include <vector>

namespace lockstep::collective {

/// A run of elements that goes from one tower's device to another's: contiguous, of one dtype and
/// length. The end at a tower of another process is undefined.
struct Move {
  int from = 0, to = 0;
  torch::Tensor source, target;
};

/// A run that is summed over all towers into the memory of one. What towers of other processes have
/// is undefined.
struct Sum {
  int to = 0;
  std::vector<torch::Tensor> sources;  ///< by tower
  torch::Tensor target;
};

/// Whether a tower that takes part is in another process.
bool crosses(const Move& move);
bool crosses(const Sum& sum);

/// Throws ConfigError, naming the transport, for a move that crosses processes.
void refuse_crossing(std::span<const Move> moves, const char* transport);

class Transport {
 public:
  virtual ~Transport() = default;

  /// Each move reads its source after all that is on streams[from] now, and writes its target after
  /// all that is on streams[to]; what is enqueued later on either stream comes after the move.
  /// Among themselves the moves of a call have no order.
  virtual void move(std::span<const Move> moves, std::span<const c10::Stream> streams) = 0;

  /// Sums in an order of its own, if it can: false when it cannot, and nothing was done.
  virtual bool sum(std::span<const Sum>, std::span<const c10::Stream>) { return false; }

  /// Whether a move across processes waits on the host until the other one makes it too. Then none
  /// is made before all of them reduce: one without rows does not post during backward.
  virtual bool waits() const { return false; }

  /// Throws DeviceLost, naming the device, if one has failed since; else returns at once.
  virtual void check() {}

  /// Ends what is enqueued and waiting, where that could hang. Any thread.
  virtual void abort() noexcept {}
};

/// The transport of that kind for towers on `devices`, all of one kind.
std::unique_ptr<Transport> make_transport(TransportKind kind, const std::vector<Device>& devices);

}  // namespace lockstep::collective
