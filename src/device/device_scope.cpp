#include "device/device_scope.h"

namespace lockstep::device {
namespace {

std::shared_ptr<Scope> scope_on(c10::Device device) {
  auto scope = copy_of_current_scope();
  scope->device = device;
  return scope;
}

}  // namespace

DeviceScope::DeviceScope(c10::Device device) : guard_(scope_on(device)) {}

}  // namespace lockstep::device
