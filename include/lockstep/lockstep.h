#pragma once

// All of Lockstep's public headers. Start with mirrored.h.

#include <lockstep/batch.h>         // IWYU pragma: export
#include <lockstep/batch_device.h>  // IWYU pragma: export
#include <lockstep/device.h>        // IWYU pragma: export
#include <lockstep/error.h>         // IWYU pragma: export
#include <lockstep/exchange.h>      // IWYU pragma: export
#include <lockstep/gpu.h>           // IWYU pragma: export
#include <lockstep/idx.h>           // IWYU pragma: export
#include <lockstep/loss.h>          // IWYU pragma: export
#include <lockstep/metrics.h>       // IWYU pragma: export
#include <lockstep/mirrored.h>      // IWYU pragma: export
#include <lockstep/optimizer.h>     // IWYU pragma: export
#include <lockstep/placement.h>     // IWYU pragma: export
#include <lockstep/precision.h>     // IWYU pragma: export
#include <lockstep/report.h>        // IWYU pragma: export
#include <lockstep/sim.h>           // IWYU pragma: export
#include <lockstep/state.h>         // IWYU pragma: export
#include <lockstep/trace.h>         // IWYU pragma: export
#include <lockstep/verify.h>        // IWYU pragma: export
