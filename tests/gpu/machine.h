#pragma once

// The GPUs of the machine that the tests run on.

#include <gtest/gtest.h>
#include <lockstep/device.h>

/// Ends the test as skipped, visibly, on a machine with fewer GPUs.
#define NEEDS_GPUS(count)                   \
  if (lockstep::inventory().gpus < (count)) \
  GTEST_SKIP() << "needs " << (count) << " GPUs; there are " << lockstep::inventory().gpus
