// Whole trainings on simulated devices, one of which is lost.

#include <gtest/gtest.h>
#include <lockstep/async.h>
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
const SmallJob kThree{
    .devices = 3, .kind = DeviceKind::sim, .on_device_failure = OnDeviceFailure::replay};

/// Trains on three simulated devices, with histograms of the parameters after every step.
template <class S>
State train(const std::vector<sim::Fault>& faults, const std::string& folder, Recorder& recorder) {
  sim::configure({.devices = 3, .faults = faults});
  const auto job = kThree.make_with<S>();
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

/// The first device is lost at the third operator of the first step from 2 on in which it has as
/// many. Returns the reports of that training.
template <class S>
std::vector<TrainingReport> expect_goes_on_without_the_first_device() {
  Recorder whole, lost;
  const State expected = train<S>({}, new_folder("whole"), whole);
  const std::string folder = new_folder("lost");
  std::vector<sim::Fault> faults;
  for (int step = 2; step < kSteps; ++step)
    faults.push_back({.kind = sim::Fault::Kind::lost, .device = 0, .step = step, .at = 3});
  EXPECT_EQ(first_difference(expected, train<S>(faults, folder, lost)), "");
  EXPECT_EQ(lost.losses, whole.losses);
  EXPECT_EQ(count_of("parameters/one.weight", folder), kSteps);
  EXPECT_EQ(steps_in(folder + "/checkpoints"), std::vector<std::int64_t>{kSteps});
  return lost.reports;
}

TEST(TrainerOnSim, HistogramsGoOnWhenTheFirstDeviceIsLost) {
  const auto reports = expect_goes_on_without_the_first_device<Mirrored<Mlp>>();
  EXPECT_EQ(reports.back().towers.size(), 2U) << "else nothing was lost";
}

TEST(TrainerOnSim, AsynchronousTrainingGoesOnWhenTheFirstDeviceIsLost) {
  std::vector<std::string> notes;
  for (const TrainingReport& report : expect_goes_on_without_the_first_device<Async<Mlp>>())
    notes.insert(notes.end(), report.notes.begin(), report.notes.end());
  EXPECT_TRUE(std::ranges::any_of(notes, [](const std::string& note) {
    return note.find("sim:0") != std::string::npos;
  })) << "else nothing was lost";
}

}  // namespace trainer_sim_test
}  // namespace lockstep
