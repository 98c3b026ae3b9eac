// Whole trainings on simulated devices, one of which is lost.

#include <gtest/gtest.h>
#include <lockstep/sim.h>
#include <lockstep/tensorboard.h>
#include <lockstep/trainer.h>
#include <lockstep/verify.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "events/records.h"
#include "recorder.h"
#include "small_job.h"

namespace lockstep {
namespace trainer_sim_test {

using namespace testing;

constexpr int kSteps = 5;

/// Trains on three simulated devices, with histograms of the parameters after every step.
State train(const std::vector<sim::Fault>& faults, const std::string& folder, Recorder& recorder) {
  sim::configure({.devices = 3, .faults = faults});
  const auto job =
      SmallJob{.devices = 3, .kind = DeviceKind::sim, .on_device_failure = OnDeviceFailure::replay}
          .make();
  TensorBoard board({.folder = folder, .histograms_every = 1});
  Trainer(*job, {.limits = {.steps = kSteps}, .report_every = 1, .folder = folder + "/checkpoints"},
          {&recorder, &board})
      .run();
  EXPECT_EQ(board.error(), "");
  return without_gradients(job->strategy().state());
}

/// How many events of a run have this tag.
std::ptrdiff_t count_of(const std::string& tag, const std::string& folder) {
  std::ptrdiff_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ostringstream bytes;
    bytes << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    const std::string content = bytes.str();
    count += std::ranges::count_if(
        events::read_records(entry.path(), content),
        [&](std::string_view event) { return event.find(tag) != std::string_view::npos; });
  }
  return count;
}

TEST(TrainerOnSim, HistogramsGoOnWhenTheFirstDeviceIsLost) {
  Recorder whole, lost;
  const State expected = train({}, new_folder("whole"), whole);
  const std::string folder = new_folder("lost");
  const sim::Fault fault{.kind = sim::Fault::Kind::lost, .device = 0, .step = 2, .at = 3};
  EXPECT_EQ(first_difference(expected, train({fault}, folder, lost)), "");
  EXPECT_EQ(lost.losses, whole.losses);
  EXPECT_EQ(lost.reports.back().towers.size(), 2U) << "else nothing was lost";
  EXPECT_EQ(count_of("parameters/one.weight", folder), kSteps);
  EXPECT_EQ(steps_in(folder + "/checkpoints"), std::vector<std::int64_t>{kSteps});
}

}  // namespace trainer_sim_test
}  // namespace lockstep
