#pragma once

#include "device/backend.h"

namespace lockstep::device {

/// CPU devices: always there, and their memory is the process's.
Backend& cpu_backend();

}  // namespace lockstep::device
