// The promise on GPUs, through the public API alone.

#include <lockstep/lockstep.h>

#include "machine.h"
#include "models.h"

namespace equality_test {

using namespace lockstep;

MirroredOptions options(const char* devices) {
  return {.method = {.shards = 4,
                     .optimizer = Adam{.lr = 1e-2},
                     .clip = {.global_norm = 0.1},
                     .seed = 7},
          .where = {.devices = parse_devices(devices)}};
}

template <class Model, class Source>
State trained_on(const char* devices, const Source& source) {
  Mirrored<Model> towers(options(devices));
  for (int step = 0; step < 20; ++step) towers.step(source(step), models::CrossEntropy{});
  return towers.state();
}

const auto kSentences = [](int step) { return models::sentences(step); };

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

TEST(Mirrored, DropoutAndAttentionAreTheSameBitForBitOnOneAndTwoGpus) {
  NEEDS_GPUS(2);
  EXPECT_EQ(first_difference(trained_on<models::Noisy>("gpu:0", kSentences),
                             trained_on<models::Noisy>("gpu:0,gpu:1", kSentences)),
            "");
}

TEST(Mirrored, ATwoLayerLstmWithDropoutIsTheSameBitForBitOnOneAndTwoGpus) {
  NEEDS_GPUS(2);
  EXPECT_EQ(first_difference(trained_on<models::Attention>("gpu:0", kSentences),
                             trained_on<models::Attention>("gpu:0,gpu:1", kSentences)),
            "");
}

template <class Model>
void expect_resume_on_one_gpu() {
  const State whole = trained_on<Model>("gpu:0,gpu:1", kSentences);
  State half;
  {
    Mirrored<Model> towers(options("gpu:1,gpu:0"));
    for (int step = 0; step < 9; ++step) towers.step(kSentences(step), models::CrossEntropy{});
    half = towers.state();
  }
  torch::rand({5}, torch::Device(torch::kCUDA, 0));  // a resumed program has drawn other numbers
  Mirrored<Model> towers(options("gpu:0"));
  towers.load(half);
  for (int step = 9; step < 20; ++step) towers.step(kSentences(step), models::CrossEntropy{});
  EXPECT_EQ(first_difference(whole, towers.state()), "");
}

TEST(Mirrored, DropoutAttentionAndLstmResumeOnOneGpuWithTheBitsOfTwoGpus) {
  NEEDS_GPUS(2);
  expect_resume_on_one_gpu<models::Noisy>();
  expect_resume_on_one_gpu<models::Attention>();
}

TEST(Mirrored, ATrainingWithDropoutRepeatsOnOneGpu) {
  NEEDS_GPUS(1);
  EXPECT_EQ(first_difference(trained_on<models::Noisy>("gpu:0", kSentences),
                             trained_on<models::Noisy>("gpu:0", kSentences)),
            "");
}

}  // namespace equality_test
