#pragma once

// Device-to-device copies: for simulated devices, and for GPUs without NCCL.

#include <map>
#include <utility>

#include "collective/transport.h"

namespace lockstep::collective {

/// A tower takes in one copy after the other; what it sends goes out beside that. All towers are of
/// one process: a move that crosses is a ConfigError.
class PeerCopy : public Transport {
 public:
  void move(std::span<const Move> moves, std::span<const c10::Stream> streams) override;

 private:
  c10::Stream outgoing(const Move& move, std::span<const c10::Stream> streams);

  std::map<std::pair<int, int>, c10::Stream> outgoing_;  // by sender and receiver
};

}  // namespace lockstep::collective
