#include "collective/machine_transport.h"

#include <c10/core/StreamGuard.h>
#include <lockstep/error.h>

#include <numeric>
#include <utility>

#include "collective/machine_meeting.h"
#include "collective/nccl.h"
#include "collective/peer_copy.h"
#include "collective/tensor_letter.h"

namespace lockstep::collective {
namespace {

/// Waits on the host for what it moves between machines: nothing overlaps.
class ThroughHosts final : public Transport {
 public:
  /// `machine_of` by tower.
  ThroughHosts(std::shared_ptr<Machines> machines, std::vector<int> machine_of)
      : machines_(std::move(machines)), machine_of_(std::move(machine_of)) {}

  void move(std::span<const Move> moves, std::span<const c10::Stream> streams) override {
    std::vector<Move> inside;
    for (const Move& move : moves)
      if (!crosses(move)) inside.push_back(move);
    copies_.move(inside, streams);
    std::vector<torch::Tensor> sent;
    std::vector<std::unique_ptr<Machines::Transfer>> sends;
    std::vector<Arrival> arrivals;
    for (const Move& move : moves) {
      if (!crosses(move)) continue;
      if (move.source.defined()) {
        at(streams, move.from).synchronize();
        sent.push_back(move.source.cpu());
        sends.push_back(machines_->send(machine(move.to), kMoveTag, bytes_of(sent.back())));
      } else {
        arrivals.push_back({move, torch::empty_like(move.target, torch::kCPU), nullptr});
        arrivals.back().transfer = machines_->receive(machine(move.from), kMoveTag,
                                                      writable_bytes_of(arrivals.back().values));
      }
    }
    for (const auto& [move, values, transfer] : arrivals) {
      transfer->wait();
      const c10::Stream& stream = at(streams, move.to);
      const c10::MultiStreamGuard guard(c10::ArrayRef<c10::Stream>{stream});
      torch::Tensor(move.target).copy_(values);
      stream.synchronize();
    }
    for (const auto& transfer : sends) transfer->wait();
  }

  bool waits() const override { return true; }

 private:
  struct Arrival {
    const Move& move;
    torch::Tensor values;
    std::unique_ptr<Machines::Transfer> transfer;
  };

  static const c10::Stream& at(std::span<const c10::Stream> streams, int tower) {
    return streams[static_cast<std::size_t>(tower)];
  }
  int machine(int tower) const { return machine_of_[static_cast<std::size_t>(tower)]; }

  const std::shared_ptr<Machines> machines_;
  const std::vector<int> machine_of_;
  PeerCopy copies_;
};

}  // namespace

std::unique_ptr<Transport> make_machine_transport(TransportKind kind,
                                                  const std::shared_ptr<Machines>& machines,
                                                  const std::vector<int>& towers,
                                                  const std::vector<Device>& devices) {
  const bool gpus = devices.front().kind == DeviceKind::gpu;
  if (gpus && kind == TransportKind::peer_copy)
    throw ConfigError(
        "exchange: copies between devices do not cross machines; GPUs of several machines need "
        "NCCL.");
  if (!gpus) {
    std::vector<int> machine_of;
    for (std::size_t machine = 0; machine < towers.size(); ++machine)
      machine_of.insert(machine_of.end(), static_cast<std::size_t>(towers[machine]),
                        static_cast<int>(machine));
    return std::make_unique<ThroughHosts>(machines, std::move(machine_of));
  }
  const auto here = towers.begin() + machines->rank();
  NcclRanks ranks{.gpus = {},
                  .first = std::accumulate(towers.begin(), here, 0),
                  .total = static_cast<int>(devices.size()),
                  .from_first = [machines](const std::vector<std::byte>& mine) {
                    return machines->all_gather(mine).front();
                  }};
  for (int i = 0; i < *here; ++i)
    ranks.gpus.push_back(devices[static_cast<std::size_t>(ranks.first + i)].index);
  return make_nccl(ranks);
}

}  // namespace lockstep::collective
