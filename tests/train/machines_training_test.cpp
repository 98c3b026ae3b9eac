// Whole trainings on several machines, which are threads of this process.

#include <lockstep/checkpoint.h>
#include <lockstep/trainer.h>
#include <lockstep/verify.h>

#include "small_job.h"
#include "strategy/on_machines.h"

namespace machines_training_test {

using namespace on_machines;
using lockstep::testing::new_folder;
using lockstep::testing::SmallJob;

constexpr std::int64_t kSteps = 40;

TrainerOptions how(const std::string& folder) {
  return {.limits = {.steps = kSteps},
          .schedule = {.shape = Cosine{.steps = kSteps}},
          .report_every = 5,
          .evaluate = {.steps = 10},
          .averaged = true,
          .goal = {.metric = "accuracy"},
          .folder = folder,
          .save = {.steps = 10},
          .keep = {.last = 100}};
}

/// Of one machine; its rank decides on its devices.
SmallJob job_on(const std::shared_ptr<Machines>& machine) {
  SmallJob job;
  job.machines = machine;
  if (machine) job.devices = 1;
  return job;
}

/// Trains on this machine; the first one has `folder`.
TrainingEnd train(const std::shared_ptr<Machines>& machine, const std::string& folder,
                  const std::function<void(TrainerOptions&)>& change = {},
                  std::vector<Observer*> observers = {}) {
  const auto job = job_on(machine).make();
  const bool first = !machine || machine->rank() == 0;
  TrainerOptions options = how(first ? folder : "");
  if (change) change(options);
  Trainer trainer(*job, options, std::move(observers));
  return trainer.run();
}

/// All checkpoints that both have: one that is due while another is being written comes later.
void expect_same_checkpoints(const std::string& expected, const std::string& found) {
  int compared = 0;
  for (const ListedCheckpoint& each : list_checkpoints(expected)) {
    if (!std::filesystem::exists(checkpoint_path(found, each.manifest.progress.step))) continue;
    ++compared;
    const Checkpoint a = load_checkpoint(each.path);
    const Checkpoint b = load_checkpoint(checkpoint_path(found, each.manifest.progress.step));
    EXPECT_EQ(first_difference(a.state, b.state), "") << each.path;
    EXPECT_EQ(a.manifest.metrics, b.manifest.metrics) << each.path;
    EXPECT_EQ(a.manifest.progress.input, b.manifest.progress.input) << each.path;
    EXPECT_EQ(a.manifest.progress.window, b.manifest.progress.window) << each.path;
    EXPECT_EQ(a.manifest.progress.best, b.manifest.progress.best) << each.path;
  }
  EXPECT_GE(compared, 1);
  EXPECT_TRUE(std::filesystem::exists(checkpoint_path(found, kSteps)));
}

std::string trained_alone() {
  const std::string folder = new_folder("alone");
  train(nullptr, folder);
  return folder;
}

TEST(MachinesTraining, HasTheCheckpointsOfOneMachine) {
  const std::string alone = trained_alone();
  for (const int count : {2, 3}) {
    const std::string folder = new_folder("together");
    run(machines::threads(count), [&](const auto& machine) {
      const TrainingEnd end = train(machine, folder);
      EXPECT_EQ(end.ending, Ending::done);
      EXPECT_EQ(end.progress.step, kSteps);
    });
    expect_same_checkpoints(alone, folder);
  }
}

TEST(MachinesTraining, OnlyTheFirstMachineMayHaveAFolder) {
  const auto said = run_all(machines::threads(2), [&](const auto& machine) {
    TrainerOptions options = how(new_folder("each"));
    const auto job = job_on(machine).make();
    Trainer trainer(*job, options);
  });
  EXPECT_NE(what(said[1]).find("the first machine alone saves"), std::string::npos);
}

TEST(MachinesTraining, AStopOnAnyMachineEndsAllAtTheSameStep) {
  for (const int who : {0, 1, 2}) {
    const std::string folder = new_folder("stopped");
    std::vector<TrainingEnd> ends(3);
    run(machines::threads(3), [&](const auto& machine) {
      const int rank = machine->rank();
      ends[static_cast<std::size_t>(rank)] = train(machine, folder, [&](TrainerOptions& options) {
        int asked = 0;
        options.stop = [=]() mutable { return rank == who && ++asked > 12; };
      });
    });
    for (const TrainingEnd& end : ends) {
      EXPECT_EQ(end.ending, Ending::stopped);
      EXPECT_EQ(end.progress.step, ends[0].progress.step);
      EXPECT_LT(end.progress.step, kSteps);
    }
    std::vector<std::string> problems;
    const auto newest = load_newest(folder, problems);
    ASSERT_TRUE(newest);
    EXPECT_EQ(newest->checkpoint.manifest.progress.step, ends[0].progress.step);
    const std::string alone = trained_alone();
    run(machines::threads(2), [&](const auto& machine) {  // go on, on others
      const auto job = job_on(machine).make();
      const bool first = machine->rank() == 0;
      Trainer trainer(*job, how(first ? folder : ""));
      const auto found = from_first(*machine, first ? newest : std::nullopt);
      ASSERT_TRUE(found);
      trainer.resume(*found);
      EXPECT_EQ(trainer.run().progress.step, kSteps);
    });
    EXPECT_EQ(first_difference(load_checkpoint(checkpoint_path(alone, kSteps)).state,
                               load_checkpoint(checkpoint_path(folder, kSteps)).state),
              "");
  }
}

TEST(MachinesTraining, FromFirstBringsNothingWhereThereIsNothing) {
  run(machines::threads(2),
      [](const auto& machine) { EXPECT_FALSE(from_first(*machine, std::nullopt)); });
}

/// Is told of lost machines.
struct Losses : Observer {
  void machines_lost(const MachinesLeft& left) override { all.push_back(left); }
  std::vector<MachinesLeft> all;
};

/// A machine that vanishes in the middle of a training.
struct Vanishing : Observer {
  Vanishing(Machines& lost, std::int64_t when) : machine(lost), step(when) {}
  void stepped(const StepReport& report, const TrainingProgress&) override {
    if (report.step == step) machines::vanish(machine);
  }
  Machines& machine;
  const std::int64_t step;
};

TEST(MachinesTraining, GoesOnWithoutAMachineThatIsLost) {
  const std::string alone = trained_alone();
  for (const std::int64_t when : {3, 10, 27}) {  // before the first save of its own, and after
    const std::string folder = new_folder("lost");
    const auto all = machines::threads(3, {"alpha", "beta", "gamma"});
    Losses losses;
    const auto thrown = run_all(all, [&](const auto& machine) {
      Vanishing vanishing(*machine, when);
      std::vector<Observer*> observers;
      if (machine->rank() == 0) observers.push_back(&losses);
      if (machine->rank() == 1) observers.push_back(&vanishing);
      EXPECT_EQ(train(machine, folder, {}, observers).progress.step, kSteps);
    });
    EXPECT_EQ(what(thrown[0]), "");
    EXPECT_NE(what(thrown[1]), "") << "it is cut off";
    EXPECT_EQ(what(thrown[2]), "");
    ASSERT_EQ(losses.all.size(), 1U);
    EXPECT_EQ(losses.all[0].lost, std::vector<std::string>{"beta"});
    EXPECT_EQ(losses.all[0].devices, (std::vector<std::string>{"alpha/cpu:0", "gamma/cpu:0"}));
    EXPECT_GE(losses.all[0].repeated, 0);
    expect_same_checkpoints(alone, folder);
  }
}

TEST(MachinesTraining, WithReplayALostMachineCostsNoStepAndNeedsNoCheckpoint) {
  const auto alone = job_on(nullptr).make();
  Trainer(*alone, how("")).run();
  State expected = alone->strategy().state();
  expected.gradients.clear();  // of the last step alone
  // After a step: also in the evaluation that follows it.
  for (const std::int64_t when : {0, 9, 23}) {
    Losses losses;
    const auto thrown =
        run_all(machines::threads(3, {"alpha", "beta", "gamma"}), [&](const auto& machine) {
          Vanishing vanishing(*machine, when);
          std::vector<Observer*> observers;
          if (machine->rank() == 0) observers.push_back(&losses);
          if (machine->rank() == 2) observers.push_back(&vanishing);
          SmallJob small = job_on(machine);
          small.on_device_failure = OnDeviceFailure::replay;
          const auto job = small.make();
          Trainer trainer(*job, how(""), observers);
          EXPECT_EQ(trainer.run().progress.step, kSteps);
          State found = job->strategy().state();
          found.gradients.clear();
          EXPECT_EQ(first_difference(expected, found), "");
        });
    EXPECT_EQ(what(thrown[0]), "");
    EXPECT_EQ(what(thrown[1]), "");
    EXPECT_NE(what(thrown[2]), "") << "it is cut off";
    ASSERT_EQ(losses.all.size(), 1U);
    EXPECT_TRUE(losses.all[0].replayed);
    EXPECT_EQ(losses.all[0].repeated, 0);
    EXPECT_EQ(losses.all[0].step, when + 1);
  }
}

TEST(MachinesTraining, StopsWithoutAMachineThatIsLostIfToldSo) {
  const std::string folder = new_folder("stops");
  const auto thrown = run_all(machines::threads(2, {"alpha", "beta"}), [&](const auto& machine) {
    Vanishing vanishing(*machine, 12);
    std::vector<Observer*> observers;
    if (machine->rank() == 1) observers.push_back(&vanishing);
    train(
        machine, folder,
        [](TrainerOptions& options) { options.on_machine_failure = OnMachineFailure::stop; },
        observers);
  });
  EXPECT_NE(what(thrown[0]).find("beta"), std::string::npos) << what(thrown[0]);
  std::vector<std::string> problems;
  EXPECT_LE(load_newest(folder, problems)->checkpoint.manifest.progress.step, 10);
  EXPECT_TRUE(problems.empty());
}

}  // namespace machines_training_test
