// GPUs that are not there, in every build. What NCCL does with GPUs: tests/gpu.

#include "collective/nccl.h"

#include <gtest/gtest.h>
#include <lockstep/error.h>

namespace nccl_test {

using namespace lockstep;

TEST(Nccl, GpusThatAreNotThereAreAConfigError) {
  EXPECT_THROW(collective::make_nccl({4094, 4095}), ConfigError);
}

}  // namespace nccl_test
