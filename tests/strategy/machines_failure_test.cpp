// What machines do when they differ, and when one of them fails.

#include "on_machines.h"

#include "models.h"

namespace machines_failure_test {

using namespace on_machines;

std::shared_ptr<Mirrored<models::Mlp>> towers_on(const std::shared_ptr<Machines>& machine) {
  return std::make_shared<Mirrored<models::Mlp>>(options(2, 4, machine));
}

/// What every machine says when it runs `program`.
std::vector<std::string> refusals(const Program& program, int count = 2) {
  std::vector<std::string> said;
  for (const auto& thrown : run_all(machines::threads(count, {"alpha", "beta", "gamma"}), program))
    said.push_back(what(thrown));
  return said;
}

void expect_in(const std::string& part, const std::vector<std::string>& all) {
  for (const std::string& each : all) EXPECT_NE(each.find(part), std::string::npos) << each;
}

TEST(Machines, WithAnotherMethodAreRefusedByName) {
  expect_in("alpha has 7, beta has 8", refusals([](const auto& machine) {
              MirroredOptions how = options(1, 4, machine);
              how.method.seed = 7 + static_cast<std::uint64_t>(machine->rank());
              Mirrored<models::Mlp> towers(how);
            }));
}

TEST(Machines, WithOtherWeightsAreRefused) {
  expect_in("'the model's weights'", refusals([](const auto& machine) {
              const auto make = [&] {
                auto model = std::make_shared<models::Mlp>();
                const torch::NoGradGuard no_grad;
                model->first->weight.add_(machine->rank());
                return model;
              };
              auto towers = Mirrored<models::Mlp>::from(options(1, 4, machine), make);
              towers.step(models::vectors(0), models::CrossEntropy{});
            }));
}

TEST(Machines, WithOtherThreadsAreRefused) {
  expect_in("beta/cpu:0 has 2", refusals([](const auto& machine) {
              MirroredOptions how = options(1, 4, machine);
              how.where.devices[0].threads = 1 + machine->rank();
              Mirrored<models::Mlp> towers(how);
            }));
}

TEST(Machines, WhereOneWritesToTheModelAreRefused) {
  expect_in("'the model's weights'", refusals([](const auto& machine) {
              const auto towers = towers_on(machine);
              towers->step(models::vectors(0), models::CrossEntropy{});
              if (machine->rank() == 1) {
                const torch::NoGradGuard no_grad;
                towers->model().first->bias.add_(1);
              }
              towers->step(models::vectors(1), models::CrossEntropy{});
            }));
}

TEST(Machines, ThatWriteTheSameGoOn) {
  run(machines::threads(2), [](const auto& machine) {
    const auto towers = towers_on(machine);
    {
      const torch::NoGradGuard no_grad;
      towers->model().first->bias.add_(1);
    }
    EXPECT_TRUE(towers->step(models::vectors(1), models::CrossEntropy{}).applied);
  });
}

TEST(Machines, ThatCallDifferentFunctionsAreRefused) {
  expect_in("state at step 0", refusals([](const auto& machine) {
              const auto towers = towers_on(machine);
              if (machine->rank() == 0)
                towers->state();
              else
                towers->step(models::vectors(0), models::CrossEntropy{});
            }));
}

TEST(Machines, AllThrowWhatOneOfThemMet) {
  std::vector<State> after(2);
  run(machines::threads(2, {"alpha", "beta"}), [&](const auto& machine) {
    const auto towers = towers_on(machine);
    towers->step(models::vectors(0), models::CrossEntropy{});
    const auto failing = [&](models::Mlp& model, const models::Batch& shard) {
      if (machine->rank() == 1) throw std::runtime_error("a bad row");
      return models::CrossEntropy{}(model, shard);
    };
    try {
      towers->step(models::vectors(1), failing);
      ADD_FAILURE() << "no error on " << machine->name(machine->rank());
    } catch (const TowerError& error) {
      EXPECT_NE(std::string(error.what()).find("a bad row"), std::string::npos) << error.what();
      EXPECT_EQ(error.device.starts_with(machine->rank() == 1 ? "cpu:" : "beta"), true)
          << error.device;
    }
    towers->step(models::vectors(1), models::CrossEntropy{});  // nothing was applied: again
    after[static_cast<std::size_t>(machine->rank())] = towers->state();
  });
  Mirrored<models::Mlp> alone(options(1, 4, nullptr));
  for (int step = 0; step < 2; ++step) alone.step(models::vectors(step), models::CrossEntropy{});
  for (const State& state : after) EXPECT_EQ(first_difference(alone.state(), state), "");
}

TEST(Machines, ThatAreLeftGoOnFromAState) {
  Mirrored<models::Mlp> alone(options(1, 4, nullptr));
  for (int step = 0; step < 2; ++step) alone.step(models::vectors(step), models::CrossEntropy{});
  const State middle = alone.state();
  for (int step = 2; step < 4; ++step) alone.step(models::vectors(step), models::CrossEntropy{});
  const State end = alone.state();
  run(machines::threads(3, {"alpha", "beta", "gamma"}), [&](const auto& machine) {
    const bool lost = machine->rank() == 1;
    const auto towers = towers_on(machine);
    for (int step = 0; step < 3; ++step)
      towers->step(models::vectors(step), models::CrossEntropy{});
    try {
      const auto vanishing = [&](models::Mlp& model, const models::Batch& shard) {
        if (lost) machines::vanish(*machine);
        return models::CrossEntropy{}(model, shard);
      };
      towers->step(models::vectors(3), vanishing);
      ADD_FAILURE() << "no error";
    } catch (const TowerError& error) {
      if (lost) return;
      EXPECT_EQ(error.device, "beta");
    }
    EXPECT_THROW(towers->step(models::vectors(3), models::CrossEntropy{}), MachinesError);
    towers->load(middle);
    EXPECT_EQ(machine->size(), 2);
    for (int step = 2; step < 4; ++step)
      towers->step(models::vectors(step), models::CrossEntropy{});
    EXPECT_EQ(first_difference(end, towers->state()), "");
  });
}

TEST(Machines, AreRefusedByOtherStrategies) {
  expect_in("Async trains on one", refusals([](const auto& machine) {
              MirroredOptions how = options(1, 1, machine);
              how.method.async = Asynchrony{};
              Async<models::Mlp> towers(how);
            }));
  expect_in("Pipeline trains on one", refusals([](const auto& machine) {
              Pipeline<models::Mlp> towers(
                  {.method = {.shards = 4}, .where = options(2, 4, machine).where});
            }));
}

}  // namespace machines_failure_test
