#pragma once

// Names that LibTorch's ProcessGroupGloo.hpp needs from Gloo's headers, which LibTorch's packages
// leave out. Gloo itself is inside libtorch_cpu.so. Nothing here is made or called by our code, so
// only the names matter, not what is behind them.

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds limit);
};

namespace transport {
class Device;
class UnboundBuffer;
}  // namespace transport

}  // namespace gloo
