#pragma once

#include "machines/data.h"

extern "C" {

/// What the module has: a new Data. The version is in the module's name, so both sides know the
/// same types.
lockstep::machines::Data* lockstep_connect_mpi(const lockstep::machines::DataOptions& options,
                                               lockstep::machines::Board& board);
}
