#pragma once

// Training on simulated devices, and what it is compared with.

#include <gtest/gtest.h>
#include <lockstep/lockstep.h>
#include <lockstep/sim.h>

#include "models.h"

namespace on_sim {

using namespace lockstep;

inline std::vector<Device> sim_devices(int count) {
  std::vector<Device> devices;
  for (int index = 0; index < count; ++index) devices.push_back({DeviceKind::sim, index});
  return devices;
}

/// Adam, clipping and a moving average, over 8 shards.
inline MirroredOptions options(std::vector<Device> devices) {
  return {.method = {.shards = 8,
                     .optimizer = Adam{.lr = 1e-2, .weight_decay = 1e-3},
                     .clip = {.global_norm = 0.1},
                     .moving_average = MovingAverage{.decay = 0.9, .warm_up = true},
                     .seed = 7},
          .where = {.devices = std::move(devices)}};
}

struct Trained {
  State state;
  std::vector<double> losses, norms;
};

template <class Model, class Source>
Trained train(const MirroredOptions& how, const Source& source, int steps) {
  Mirrored<Model> towers(how);
  Trained run;
  for (int step = 0; step < steps; ++step) {
    const StepReport report = towers.step(source(step), models::CrossEntropy{});
    run.losses.push_back(report.loss);
    run.norms.push_back(report.gradient_norm);
  }
  run.state = towers.state();
  return run;
}

inline void expect_same(const Trained& expected, const Trained& found, const std::string& what) {
  EXPECT_EQ(expected.losses, found.losses) << what;
  EXPECT_EQ(expected.norms, found.norms) << what;
  EXPECT_EQ(first_difference(expected.state, found.state), "") << what;
}

}  // namespace on_sim
