#include "base/version.h"

namespace lockstep::base {

const char* version() {
  static const char kText[] = "lockstep, version " LOCKSTEP_VERSION;  // to be found in a program
  return kText + sizeof "lockstep, version " - 1;
}

}  // namespace lockstep::base
