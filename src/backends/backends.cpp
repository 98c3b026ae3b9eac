// The devices that there are: a kind and its backend.

#include "device/backend.h"
#include "device/cpu_backend.h"
#include "gpu/backend.h"
#include "sim/backend.h"

namespace lockstep::device {

Backend& backend(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::gpu:
      return gpu::backend();
    case DeviceKind::sim:
      return sim::backend();
    case DeviceKind::cpu:
      break;
  }
  return cpu_backend();
}

}  // namespace lockstep::device
