#include "collective/peer_copy.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "device/accelerator.h"

namespace lockstep::collective {

using device::order;
void PeerCopy::move(std::span<const Move> moves, std::span<const c10::Stream> streams) {
  refuse_crossing(moves, "copies between devices");
  const torch::NoGradGuard no_grad;
  const auto stream_of = [&](int tower) { return streams[static_cast<std::size_t>(tower)]; };
  for (const Move& move : moves) order(stream_of(move.from), outgoing(move, streams));
  for (const Move& move : moves) {
    const c10::Stream out = outgoing(move, streams), to = stream_of(move.to);
    // LibTorch copies on the current streams of both devices.
    const c10::MultiStreamGuard guard({out, to});
    order(out, to);
    torch::Tensor target = move.target;
    target.copy_(move.source, /*non_blocking=*/true);
    order(to, out);
  }
  for (const Move& move : moves) order(outgoing(move, streams), stream_of(move.from));
}

c10::Stream PeerCopy::outgoing(const Move& move, std::span<const c10::Stream> streams) {
  const auto found = outgoing_.find({move.from, move.to});
  if (found != outgoing_.end()) return found->second;
  const c10::Device device = streams[static_cast<std::size_t>(move.from)].device();
  const c10::Stream fresh =
      c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  return outgoing_.emplace(std::pair(move.from, move.to), fresh).first->second;
}

}  // namespace lockstep::collective
