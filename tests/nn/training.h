#pragma once

// A few steps of a model on made-up images.

#include <gtest/gtest.h>
#include <lockstep/lockstep.h>
#include <lockstep/sim.h>
#include <lockstep/vision/classify.h>

namespace training {

using namespace lockstep;
using namespace lockstep::nn;
using namespace lockstep::vision;
using Batch = torch::data::Example<>;

/// One intra-op thread, as a tower has: tests that run side by side do not fight for cores.
class OnOneThread : public testing::Test {
 protected:
  OnOneThread() { torch::set_num_threads(1); }
};

/// Batch `step` of images of a size, and labels of 0 to 4.
inline Batch images(int step, std::int64_t rows, std::int64_t channels, std::int64_t size) {
  auto generator = torch::make_generator<torch::CPUGeneratorImpl>(static_cast<std::uint64_t>(step));
  return {torch::randn({rows, channels, size, size}, generator),
          torch::randint(5, {rows}, generator, torch::kInt64)};
}

template <class Model>
struct CrossEntropy {
  Loss operator()(Model& model, const Batch& shard) const {
    return cross_entropy(model.forward(shard.data), shard.target, 0.1);
  }
};

/// The state after three steps of 11 rows in 4 shards.
template <class Model, class Options>
State trained(const std::vector<Device>& devices, const Options& options, std::int64_t channels,
              std::int64_t size) {
  Mirrored<Model> towers(
      {.method = {.shards = 4,
                  .optimizer = Sgd{.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-4},
                  .seed = 3},
       .where = {.devices = devices}},
      options);
  for (int step = 0; step < 3; ++step)
    towers.step(images(step, 11, channels, size), CrossEntropy<Model>{});
  return towers.state();
}

template <class Model, class Options>
void expect_equal_on_any_devices(const Options& options, std::int64_t channels, std::int64_t size) {
  const State one = trained<Model>(cpu_devices(1), options, channels, size);
  EXPECT_EQ(first_difference(one, trained<Model>(cpu_devices(3), options, channels, size)), "");
  EXPECT_EQ(
      first_difference(one, trained<Model>(parse_devices("sim:0-1"), options, channels, size)), "");
}

template <class Model>
void expect_a_gradient_for_every_parameter(Model& model, const Batch& batch) {
  CrossEntropy<Model>{}(model, batch).sum.backward();
  for (const auto& parameter : model.named_parameters()) {
    ASSERT_TRUE(parameter->grad().defined()) << parameter.key();
    EXPECT_GT(parameter->grad().abs().max().template item<float>(), 0) << parameter.key();
  }
}

template <class Model>
void expect_rows_do_not_see_each_other_in_evaluation(Model& model, const Batch& batch) {
  model.eval();
  const torch::NoGradGuard no_gradients;
  const torch::Tensor whole = model.forward(batch.data);
  EXPECT_TRUE(torch::equal(whole, model.forward(batch.data)));
  // Not bit for bit: another number of rows may take another kernel.
  EXPECT_TRUE(torch::allclose(whole.narrow(0, 1, 1), model.forward(batch.data.narrow(0, 1, 1)),
                              1e-4, 1e-5));
}

template <class Model>
std::int64_t parameters_of(const Model& model) {
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : model.parameters()) count += parameter.numel();
  return count;
}

}  // namespace training
