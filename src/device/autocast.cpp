#include "device/autocast.h"

#include <ATen/autocast_mode.h>

namespace lockstep::device {

AutocastScope::AutocastScope(c10::DeviceType device, Precision precision)
    : device_(device),
      outer_enabled_(at::autocast::is_autocast_enabled(device)),
      outer_cache_(at::autocast::is_autocast_cache_enabled()),
      outer_dtype_(at::autocast::get_autocast_dtype(device)) {
  at::autocast::set_autocast_enabled(device, precision != Precision::float32);
  if (precision == Precision::float32) return;
  at::autocast::set_autocast_dtype(device,
                                   precision == Precision::float16 ? at::kHalf : at::kBFloat16);
  // One cache of converted weights serves the whole process: a tower that clears it takes from
  // another's graph what that one still counts on, and an update of the weights would not reach it.
  at::autocast::set_autocast_cache_enabled(false);
}

AutocastScope::~AutocastScope() {
  at::autocast::set_autocast_enabled(device_, outer_enabled_);
  at::autocast::set_autocast_dtype(device_, outer_dtype_);
  at::autocast::set_autocast_cache_enabled(outer_cache_);
}

}  // namespace lockstep::device
