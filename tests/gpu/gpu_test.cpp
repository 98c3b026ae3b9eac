// What a GPU says of itself, and its memory.

#include <c10/util/Exception.h>
#include <lockstep/error.h>
#include <lockstep/gpu.h>
#include <torch/torch.h>

#include <set>

#include "machine.h"

namespace gpu_test {

using namespace lockstep;

const auto kFirst = torch::TensorOptions(torch::Device(torch::kCUDA, 0)).dtype(torch::kUInt8);
constexpr std::int64_t kMegabyte = 1 << 20;

TEST(Gpu, EachHasANameMemoryAndAUuidOfItsOwn) {
  NEEDS_GPUS(1);
  const auto gpus = gpu::list();
  EXPECT_EQ(gpus.size(), static_cast<std::size_t>(inventory().gpus));
  EXPECT_EQ(gpu::why_none({}), "");
  std::set<std::string> uuids, buses;
  for (const gpu::Info& info : gpus) {
    EXPECT_NE(info.name, "");
    EXPECT_GT(info.memory_bytes, 256 * kMegabyte);
    EXPECT_EQ(info.uuid.size(), std::string("GPU-00000000-0000-0000-0000-000000000000").size());
    uuids.insert(info.uuid);
    buses.insert(info.bus_id);
  }
  EXPECT_EQ(uuids.size(), gpus.size());
  EXPECT_LE(buses.size(), gpus.size());  // parts of one GPU share a bus
}

TEST(Gpu, UsageFollowsTensorsAndThePeakStaysUntilReset) {
  NEEDS_GPUS(1);
  const std::int64_t before = gpu::usage(0).bytes;
  {
    const auto tensor = torch::empty({8 * kMegabyte}, kFirst);
    EXPECT_EQ(gpu::usage(0).bytes, before + 8 * kMegabyte);
  }
  EXPECT_EQ(gpu::usage(0).bytes, before);
  EXPECT_GE(gpu::usage(0).peak_bytes, before + 8 * kMegabyte);
  gpu::reset_peak(0);
  EXPECT_EQ(gpu::usage(0).peak_bytes, before);
}

TEST(Gpu, ALimitOfMemoryHoldsAndCanBeLifted) {
  NEEDS_GPUS(1);
  const std::int64_t all = gpu::list()[0].memory_bytes;
  EXPECT_THROW(gpu::limit_memory_bytes(0, all + 1), ConfigError);
  EXPECT_THROW(gpu::limit_memory_fraction(0, 0), ConfigError);
  gpu::limit_memory_bytes(0, 64 * kMegabyte);
  EXPECT_THROW(torch::empty({128 * kMegabyte}, kFirst), c10::OutOfMemoryError);
  gpu::limit_memory_fraction(0, 1);
  EXPECT_EQ(torch::empty({128 * kMegabyte}, kFirst).numel(), 128 * kMegabyte);
}

}  // namespace gpu_test
