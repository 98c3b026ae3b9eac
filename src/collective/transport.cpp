#include "collective/transport.h"

#include <lockstep/error.h>

#include <algorithm>
#include <string>

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

}  // namespace lockstep::collective
