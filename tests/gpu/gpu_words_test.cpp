// Why there is no GPU, and what a GPU is called, from what CUDA says.

#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <lockstep/gpu.h>

#include "gpu/gpu_words.h"

namespace gpu_words_test {

using namespace lockstep;
using gpu::CudaFacts;
using gpu::why_no_gpu;

constexpr auto kUnset = std::nullopt;

TEST(GpuWords, WithAGpuThereIsNothingToSay) {
  EXPECT_EQ(why_no_gpu({.built = true, .driver = 13020, .runtime = 13020, .gpus = 1}, kUnset), "");
}

TEST(GpuWords, ABuildWithoutCudaSaysSo) {
  EXPECT_EQ(why_no_gpu({}, kUnset),
            "this program was built without CUDA (docs/cuda.md says how to build with it)");
}

TEST(GpuWords, AMissingDriverIsNamed) {
  EXPECT_EQ(why_no_gpu({.built = true, .runtime = 13020}, kUnset), "no NVIDIA driver is installed");
}

TEST(GpuWords, AnOldDriverIsNamedWithBothVersions) {
  EXPECT_EQ(why_no_gpu({.built = true, .driver = 12040, .runtime = 13020, .driver_too_old = true},
                       kUnset),
            "the NVIDIA driver is too old: it knows CUDA 12.4 and this program is built with 13.2");
}

TEST(GpuWords, HiddenGpusAreBlamedOnTheVariableThatHidesThem) {
  const CudaFacts none{.built = true, .driver = 13020, .runtime = 13020};
  EXPECT_EQ(why_no_gpu(none, ""), "none is visible: CUDA_VISIBLE_DEVICES is empty");
  EXPECT_EQ(why_no_gpu(none, " "), "none is visible: CUDA_VISIBLE_DEVICES is empty");
  EXPECT_EQ(why_no_gpu(none, "-1"), "none is visible: CUDA_VISIBLE_DEVICES is '-1'");
  EXPECT_EQ(why_no_gpu(none, "7"), "none is visible: CUDA_VISIBLE_DEVICES is '7'");
  EXPECT_EQ(why_no_gpu(none, kUnset), "the NVIDIA driver finds none");
}

TEST(GpuWords, AVariableThatHidesAllIsSaidBesidesTheMissingDriver) {
  EXPECT_EQ(why_no_gpu({.built = true}, ""),
            "no NVIDIA driver is installed; besides, CUDA_VISIBLE_DEVICES is empty");
  EXPECT_EQ(why_no_gpu({.built = true}, "0,1"), "no NVIDIA driver is installed");
}

TEST(GpuWords, AnyOtherErrorIsQuoted) {
  EXPECT_EQ(why_no_gpu({.built = true, .driver = 13020, .error = "system not yet initialized"}, ""),
            "CUDA says: system not yet initialized; besides, CUDA_VISIBLE_DEVICES is empty");
}

TEST(GpuWords, APhysicalNameIsTheOneInTheVariable) {
  EXPECT_EQ(gpu::physical_name(1, kUnset), "1");
  EXPECT_EQ(gpu::physical_name(0, "2,0"), "2");
  EXPECT_EQ(gpu::physical_name(1, "2, 0"), "0");
  EXPECT_EQ(gpu::physical_name(1, "0,GPU-9d1c5cbc,3"), "GPU-9d1c5cbc");
  EXPECT_EQ(gpu::physical_name(2, "2,0"), "");
}

TEST(Gpu, WhatNeedsAGpuThatIsNotThereIsAConfigError) {
  EXPECT_THROW(gpu::usage(4095), ConfigError);
  EXPECT_THROW(gpu::usage(-1), ConfigError);
  EXPECT_THROW(gpu::reset_peak(4095), ConfigError);
  EXPECT_THROW(gpu::limit_memory_fraction(4095, 0.5), ConfigError);
  EXPECT_THROW(gpu::limit_memory_bytes(4095, 1 << 20), ConfigError);
}

TEST(Gpu, ThereIsEitherAGpuOrAReasonWhyNot) {
  EXPECT_EQ(gpu::list().empty(), !gpu::why_none(kUnset).empty());
}

}  // namespace gpu_words_test
