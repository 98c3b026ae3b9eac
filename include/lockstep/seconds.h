#pragma once

#include <chrono>

namespace lockstep {

using Seconds = std::chrono::duration<double>;

}  // namespace lockstep
