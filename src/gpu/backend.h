#pragma once

#include "device/backend.h"

namespace lockstep::gpu {

/// GPUs, as the layers above see them.
device::Backend& backend();

/// Makes LibTorch choose algorithms whose results repeat exactly, and refuse operators that have
/// none. Once for the process: what the program sets later stays. See docs/cuda.md.
void ask_for_determinism();

}  // namespace lockstep::gpu
