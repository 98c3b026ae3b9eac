// Opens the module that mpi_data.cpp becomes.

#include <dlfcn.h>
#include <lockstep/error.h>

#include "machines/data.h"
#include "machines/mpi_module.h"

namespace lockstep::machines {
namespace {

/// For as long as the process lives.
decltype(&lockstep_connect_mpi) open_module() {
  void* const module = dlopen(LOCKSTEP_MPI_MODULE, RTLD_NOW | RTLD_LOCAL);
  if (!module) {
    const char* const why = dlerror();
    throw ConfigError(std::string("the transport mpi is not there (") + (why ? why : "unknown") +
                      "): install an MPI with its headers (Debian: libopenmpi-dev), build Lockstep "
                      "with -DLOCKSTEP_MPI=ON, and keep " LOCKSTEP_MPI_MODULE
                      " where the program or LD_LIBRARY_PATH looks for it. Or leave it out: gloo "
                      "needs no MPI");
  }
  return reinterpret_cast<decltype(&lockstep_connect_mpi)>(dlsym(module, "lockstep_connect_mpi"));
}

}  // namespace

std::unique_ptr<Data> connect_mpi(const DataOptions& options, std::shared_ptr<Board> board) {
  static const auto connect = open_module();
  check(connect != nullptr, LOCKSTEP_MPI_MODULE " is not a module of Lockstep");
  return std::unique_ptr<Data>(connect(options, *board));
}

}  // namespace lockstep::machines
