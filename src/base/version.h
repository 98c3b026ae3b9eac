#pragma once

namespace lockstep::base {

/// "0.1.0"
const char* version();

}  // namespace lockstep::base
