// The promise on GPUs, through the public API alone.

#include <lockstep/lockstep.h>

#include "machine.h"
#include "models.h"

namespace {

using namespace lockstep;

template <class Model, class Source>
State trained_on(const char* devices, const Source& source) {
  Mirrored<Model> towers({.devices = parse_devices(devices),
                          .shards = 4,
                          .optimizer = Adam{.lr = 1e-2},
                          .clip = {.global_norm = 0.1},
                          .seed = 7});
  for (int step = 0; step < 20; ++step) towers.step(source(step), models::CrossEntropy{});
  return towers.state();
}

TEST(Mirrored, AnMlpIsTheSameBitForBitOnOneAndTwoGpus) {
  NEEDS_GPUS(2);
  const auto source = [](int step) { return models::vectors(step); };
  EXPECT_EQ(first_difference(trained_on<models::Mlp>("gpu:0", source),
                             trained_on<models::Mlp>("gpu:0,gpu:1", source)),
            "");
}

TEST(Mirrored, AConvnetWithBatchNormIsTheSameBitForBitOnOneAndTwoGpus) {
  NEEDS_GPUS(2);
  const auto source = [](int step) { return models::images(step); };
  EXPECT_EQ(first_difference(trained_on<models::ConvNet>("gpu:0", source),
                             trained_on<models::ConvNet>("gpu:0,gpu:1", source)),
            "");
}

}  // namespace
