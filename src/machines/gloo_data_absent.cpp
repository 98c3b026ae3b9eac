#include <lockstep/error.h>

#include "machines/data.h"

namespace lockstep::machines {

std::unique_ptr<Data> connect_gloo(const DataOptions& /*options*/,
                                   std::shared_ptr<Board> /*board*/) {
  throw ConfigError(
      "this LibTorch was built without c10d's Gloo, by which machines exchange data: build "
      "Lockstep with the LibTorch that scripts/setup installs");
}

}  // namespace lockstep::machines
