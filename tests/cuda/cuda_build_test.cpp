// What a build with CUDA can show on any machine, with a GPU or without.

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>
#include <lockstep/device.h>
#include <lockstep/error.h>
#include <lockstep/gpu.h>

#include <cstdlib>

#include "collective/nccl.h"
#include "gpu/backend.h"
#include "gpu/cuda.h"

namespace cuda_build_test {

using namespace lockstep;

TEST(CudaBuild, KnowsItsRuntimeAndSaysWhyThereIsNoGpu) {
  const gpu::CudaFacts facts = gpu::cuda_facts();
  EXPECT_TRUE(facts.built);
  EXPECT_GE(facts.runtime, 13000);
  EXPECT_EQ(gpu::list().size(), static_cast<std::size_t>(facts.gpus));
  EXPECT_EQ(facts.gpus == 0, !gpu::why_none({}).empty());
  EXPECT_EQ(gpu::why_none({}).find("without CUDA"), std::string::npos);
  EXPECT_EQ(inventory().gpus, facts.gpus);
}

TEST(CudaBuild, HoldsLibTorchsCudaKernels) {
  const auto add = c10::Dispatcher::singleton().findSchemaOrThrow("aten::add", "Tensor");
  EXPECT_TRUE(add.hasKernelForDispatchKey(c10::DispatchKey::CUDA));
}

TEST(CudaBuild, InstallsSoftPlacementOnce) {
  gpu::install();
  gpu::install();
  EXPECT_TRUE(
      c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(c10::DispatchKey::CUDA));
}

TEST(CudaBuild, AsksOnceForAlgorithmsThatRepeat) {
  at::Context& context = at::globalContext();
  context.setBenchmarkCuDNN(true);
  gpu::ask_for_determinism();
  EXPECT_TRUE(context.deterministicAlgorithms());
  EXPECT_FALSE(context.deterministicAlgorithmsWarnOnly());
  EXPECT_TRUE(context.deterministicCuDNN());
  EXPECT_FALSE(context.benchmarkCuDNN());
  EXPECT_NE(std::getenv("CUBLAS_WORKSPACE_CONFIG"), nullptr);
  context.setDeterministicAlgorithms(true, /*warn_only=*/true);  // the program's own choice
  gpu::ask_for_determinism();
  EXPECT_TRUE(context.deterministicAlgorithmsWarnOnly());
}

TEST(CudaBuild, RefusesGpusThatAreNotThere) {
  EXPECT_THROW(collective::make_nccl({4094, 4095}), ConfigError);
  EXPECT_THROW(gpu::usage(4095), ConfigError);
}

}  // namespace cuda_build_test
