#pragma once

// A device for an unchanged model: inside a DeviceScope every tensor that this thread makes without
// naming a device is made on the scope's. See "Note: scopes" in docs/notes.md.

#include <c10/core/Device.h>

#include "device/scope.h"

namespace lockstep::device {

/// While it lives, torch::zeros({2}), torch::tensor({1, 2}) and the like of this thread, and of the
/// backward pass that it starts, make their tensor on `device`. Left alone: factories that name a
/// device (but not torch::tensor, where LibTorch drops the difference), pinned memory, from_blob,
/// from_file, and what LibTorch makes inside of its own operators. Scopes nest.
class DeviceScope {
 public:
  explicit DeviceScope(c10::Device device);

 private:
  ScopeGuard guard_;
};

}  // namespace lockstep::device
