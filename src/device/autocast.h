#pragma once

#include <ATen/core/ATen_fwd.h>
#include <c10/core/DeviceType.h>
#include <lockstep/precision.h>

namespace lockstep::device {

/// While it lives, operators of this thread on devices of kind `device` compute in `precision`
/// where LibTorch's autocast holds that safe; float32 switches autocast off. For the forward pass
/// only: backward follows the types that forward has chosen. Scopes nest; the end of one brings
/// back what was there before.
class AutocastScope {
 public:
  AutocastScope(c10::DeviceType device, Precision precision);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  const c10::DeviceType device_;
  const bool outer_enabled_, outer_cache_;
  const c10::ScalarType outer_dtype_;
};

}  // namespace lockstep::device
