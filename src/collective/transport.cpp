#include "collective/transport.h"

#include <lockstep/error.h>

#include <algorithm>
#include <string>

#include "collective/nccl.h"
#include "collective/peer_copy.h"

namespace lockstep::collective {

bool crosses(const Move& move) { return !move.source.defined() || !move.target.defined(); }

bool crosses(const Sum& sum) {
  return !sum.target.defined() || !std::ranges::all_of(sum.sources, &torch::Tensor::defined);
}

void refuse_crossing(std::span<const Move> moves, const char* transport) {
  for (const Move& move : moves)
    if (crosses(move))
      throw ConfigError(std::string(transport) + " cannot move bytes from tower " +
                        std::to_string(move.from) + " to tower " + std::to_string(move.to) +
                        ": they are in different processes.");
}

std::unique_ptr<Transport> make_transport(TransportKind kind, const std::vector<Device>& devices) {
  if (kind == TransportKind::best)
    kind = devices.front().kind == DeviceKind::gpu ? TransportKind::nccl : TransportKind::peer_copy;
  if (kind == TransportKind::peer_copy) return std::make_unique<PeerCopy>();
  std::vector<int> gpus;
  for (const Device& device : devices) gpus.push_back(device.index);
  return make_nccl(gpus);
}

}  // namespace lockstep::collective
