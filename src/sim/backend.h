#pragma once

#include "device/backend.h"

namespace lockstep::sim {

/// Simulated devices, as the layers above see them.
device::Backend& backend();

}  // namespace lockstep::sim
