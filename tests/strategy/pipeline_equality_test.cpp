// The promise, for stages: their number never changes the result, bit for bit.

#include "strategy/on_pipeline.h"

namespace pipeline_equality_test {

using namespace on_pipeline;

constexpr int kSteps = 4;

class PipelineEquality : public testing::Test {
 protected:
  void SetUp() override { sim::configure({.devices = 8}); }
};

struct Shape {
  std::vector<Device> devices;
  int stages;
};

std::vector<Shape> shapes() {
  return {{cpu_devices(1), 1}, {cpu_devices(2), 2}, {cpu_devices(3), 3}, {cpu_devices(4), 4},
          {cpu_devices(4), 2}, {sim_devices(2), 2}, {sim_devices(4), 4}, {sim_devices(4), 2}};
}

std::string name_of(const Shape& shape) {
  return shape.devices.front().name() + " x " + std::to_string(shape.devices.size()) + ", " +
         std::to_string(shape.stages) + " stages";
}

template <class Source>
void expect_deep_equal(const MirroredOptions& like, const Source& source) {
  MirroredOptions one = like;
  one.where.devices = cpu_devices(1);
  const Trained expected = train<Deep>(one, source, kSteps);
  EXPECT_NE(expected.losses.front(), expected.losses.back());
  for (const Shape& shape : shapes())
    with_deep(shape.stages, [&](const auto& loss) {
      expect_same(expected,
                  train_piped<Deep>(piped(like, shape.devices, shape.stages), source, kSteps, loss),
                  name_of(shape));
    });
}

TEST_F(PipelineEquality, DropoutAndBatchNormAreTheSameBitForBitWithAnyStages) {
  expect_deep_equal(options({}), [](int step) { return models::vectors(step, 24); });
}

}  // namespace pipeline_equality_test
