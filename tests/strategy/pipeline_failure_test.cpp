// What a failing stage may cost: nothing. And what a pipeline refuses, by name.

#include "strategy/on_pipeline.h"
#include "strategy/refusal.h"

namespace pipeline_failure_test {

using namespace on_pipeline;

class PipelineFailure : public testing::Test {
 protected:
  void SetUp() override { sim::configure({.devices = 8}); }
};

Batch vectors(int step) { return models::vectors(step, 24); }

PipelineOptions how(std::vector<Device> devices, int stages,
                    OnDeviceFailure reaction = OnDeviceFailure::stop) {
  PipelineOptions result = piped(options({}), std::move(devices), stages);
  result.where.on_device_failure = reaction;
  return result;
}

State without_gradients(State state) {
  state.gradients.clear();
  return state;
}

TEST_F(PipelineFailure, AnExceptionInAStageFreesTheOthersAndAppliesNothing) {
  const auto first = [](Deep& net, const Batch& b) { return net.parts(0, 1, {b.first, {}}); };
  const auto next = [](Deep& net, const Deep::Middle& in) {
    if (calls()++ == 3) throw std::runtime_error("the fourth");
    return net.parts(1, 3, in);
  };
  const auto last = [](Deep& net, const Batch& b, const Deep::Middle& in) {
    return cross_entropy(net.finish(net.parts(3, 4, in)), b.second);
  };
  const auto loss = stages(first, next, last);
  for (const auto& devices : {cpu_devices(3), sim_devices(3)}) {
    Pipeline<Deep> towers(how(devices, 3));
    calls() = 100;
    towers.step(vectors(0), loss);
    const State before = towers.state();
    calls() = 0;
    try {
      towers.step(vectors(1), loss);
      ADD_FAILURE() << "no error";
    } catch (const TowerError& error) {
      EXPECT_EQ(error.device, devices[1].name());
      EXPECT_EQ(error.stage, "stage 2 of 3, forward");
      EXPECT_EQ(error.shard, 3);
      EXPECT_EQ(error.step, 1);
      EXPECT_NE(std::string(error.what()).find("the fourth"), std::string::npos);
    }
    EXPECT_EQ(first_difference(without_gradients(before), without_gradients(towers.state())), "");
    EXPECT_TRUE(towers.step(vectors(1), loss).applied);
  }
}

TEST_F(PipelineFailure, OutOfMemoryInAnyStageAppliesNothingAndNamesIt) {
  with_deep(2, [&](const auto& loss) {
    for (int device = 0; device < 2; ++device) {
      std::int64_t allocations = 0;
      {
        sim::configure({.devices = 2});
        Pipeline<Deep> towers(how(sim_devices(2), 2));
        for (int step = 0; step < 2; ++step) towers.step(vectors(step), loss);
        allocations = sim::usage(device).allocations;
      }
      ASSERT_GT(allocations, 50);
      for (std::int64_t at = 0; at < allocations; at += 13) {
        sim::configure({.devices = 2,
                        .faults = {{.kind = sim::Fault::Kind::out_of_memory,
                                    .device = device,
                                    .step = 1,
                                    .at = at}}});
        Pipeline<Deep> towers(how(sim_devices(2), 2));
        towers.step(vectors(0), loss);
        const State before = towers.state();
        try {
          towers.step(vectors(1), loss);
          ADD_FAILURE() << "no error at allocation " << at;
        } catch (const TowerError& error) {
          EXPECT_EQ(error.device, "sim:" + std::to_string(device)) << error.what();
          EXPECT_EQ(error.stage.find("stage " + std::to_string(device + 1) + " of 2, "), 0U)
              << error.what();
          EXPECT_THROW(std::rethrow_exception(error.cause), c10::OutOfMemoryError);
        }
        ASSERT_EQ(first_difference(without_gradients(before), without_gradients(towers.state())),
                  "")
            << at;
      }
    }
  });
}

TEST_F(PipelineFailure, ALostDeviceIsReplayedByTheOtherReplicasBitForBit) {
  with_deep(2, [&](const auto& loss) {
    constexpr int kSteps = 4;
    const State expected = train_piped<Deep>(how(sim_devices(4), 2), vectors, kSteps, loss).state;
    for (int device = 0; device < 4; ++device) {
      sim::configure({.devices = 4});
      std::int64_t operators = 0;
      {
        Pipeline<Deep> towers(how(sim_devices(4), 2, OnDeviceFailure::replay));
        for (int step = 0; step < 3; ++step) towers.step(vectors(step), loss);
        operators = sim::usage(device).operators;
      }
      int replayed = 0, torn = 0;
      for (std::int64_t at = 0; at < operators; at += operators / 12) {
        sim::configure({.devices = 4, .faults = {{.device = device, .step = 2, .at = at}}});
        Pipeline<Deep> towers(how(sim_devices(4), 2, OnDeviceFailure::replay));
        try {
          std::size_t left = 0;
          for (int step = 0; step < kSteps; ++step)
            left = towers.step(vectors(step), loss).towers.size();
          EXPECT_EQ(left, 2U) << "operator " << at;
          EXPECT_EQ(first_difference(expected, towers.state()), "") << "operator " << at;
          ++replayed;
        } catch (const TowerError& error) {
          EXPECT_TRUE(error.stage.ends_with("update")) << error.what();
          EXPECT_EQ(error.device, "sim:" + std::to_string(device)) << error.what();
          ++torn;
        }
      }
      EXPECT_GT(replayed, 2 * torn);
    }
  });
}

TEST_F(PipelineFailure, WithoutAnotherReplicaNobodyCanTakeOver) {
  with_deep(2, [&](const auto& loss) {
    sim::configure({.devices = 2, .faults = {{.device = 1, .step = 1, .at = 20}}});
    Pipeline<Deep> towers(how(sim_devices(2), 2, OnDeviceFailure::replay));
    towers.step(vectors(0), loss);
    try {
      towers.step(vectors(1), loss);
      ADD_FAILURE() << "no error";
    } catch (const TowerError& error) {
      EXPECT_EQ(error.device, "sim:1");
      EXPECT_NE(std::string(error.what()).find("nobody can take it over"), std::string::npos)
          << error.what();
    }
  });
}

TEST_F(PipelineFailure, ALossThatIsNotFiniteIsRefusedWithItsShardOrSkipped) {
  Batch bad = vectors(1);
  bad.first[13].fill_(std::numeric_limits<float>::infinity());  // 24 rows in 8 shards
  for (const auto& devices : {cpu_devices(4), sim_devices(4)})
    with_deep(2, [&](const auto& loss) {
      PipelineOptions refusing = how(devices, 2), skipping = refusing;
      skipping.method.non_finite = NonFinite::skip;
      Pipeline<Deep> one(refusing), two(skipping);
      for (Pipeline<Deep>* each : {&one, &two}) each->step(vectors(0), loss);
      const State before = one.state();
      try {
        one.step(bad, loss);
        ADD_FAILURE() << "no error";
      } catch (const TowerError& error) {
        EXPECT_EQ(error.shard, 4) << error.what();
        EXPECT_EQ(error.device, devices[3].name());
        EXPECT_THROW(std::rethrow_exception(error.cause), NonFiniteError);
      }
      EXPECT_FALSE(two.step(bad, loss).applied);
      EXPECT_EQ(two.skipped(), 1);
      EXPECT_EQ(first_difference(without_gradients(before), without_gradients(one.state())), "");
      for (Pipeline<Deep>* each : {&one, &two}) EXPECT_TRUE(each->step(vectors(2), loss).applied);
    });
}

TEST_F(PipelineFailure, WhatAPipelineCannotDoIsRefusedWithWhatToDo) {
  const auto said = [](const std::function<void(PipelineOptions&)>& change) {
    return refusal::message_of([&] {
      PipelineOptions options = how(cpu_devices(2), 2);
      change(options);
      Pipeline<Deep> towers(options);
    });
  };
  const auto expect_said = [](const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect_said(said([](auto& o) { o.stages = 3; }), "a multiple of it");
  expect_said(said([](auto& o) { o.stages = 0; }), "a multiple of it");
  expect_said(said([](auto& o) { o.where.balance = Balance::automatic; }), "Leave it even");
  expect_said(said([](auto& o) { o.method.async.emplace(); }), "method.async is of Async");
  Pipeline<Deep> towers(how(cpu_devices(2), 2));
  with_deep(3, [&](const auto& loss) {
    expect_said(refusal::message_of([&] { towers.step(vectors(0), loss); }),
                "3 parts, but there are 2 stages");
  });
  const auto whole = whole_batch([](Deep& net, const Batch& b) { return net.forward(b.first); },
                                 [](const Tensor& all) { return all.mean(); });
  expect_said(refusal::message_of([&] { towers.step(vectors(0), whole); }), "Use Mirrored");
}

TEST_F(PipelineFailure, AParameterInAnotherStageThanInTheFirstStepIsRefusedByName) {
  for (const auto& devices : {cpu_devices(2), sim_devices(2)})
    with_deep(2, [&](const auto& loss) {
      Pipeline<Deep> towers(how(devices, 2));
      towers.step(vectors(0), loss);
      const auto other = stages(
          [](Deep& net, const Batch& b) {
            return net.parts(0, 3, {b.first, {}});
          },
          [](Deep& net, const Batch& b, const Deep::Middle& in) {
            return cross_entropy(net.finish(net.parts(3, 4, in)), b.second);
          });
      const std::string message = refusal::message_of([&] { towers.step(vectors(1), other); });
      EXPECT_NE(message.find("in the first step"), std::string::npos) << message;
      EXPECT_TRUE(towers.step(vectors(1), loss).applied);
    });
}

TEST_F(PipelineFailure, AStageThatWritesItsShardOrCallsBackwardIsRefused) {
  const auto first = [](models::Mlp& net, const Batch& b) { return net.first(b.first); };
  const auto last = [](models::Mlp& net, const Batch& b, const Tensor& x) {
    return cross_entropy(net.second(torch::relu(x)), b.second);
  };
  const auto writes = [=](models::Mlp& net, const Batch& b) {
    b.first.mul_(2);
    return first(net, b);
  };
  const auto backward = [=](models::Mlp& net, const Batch& b, const Tensor& x) {
    if (calls()++ > 0) net.second(torch::relu(x)).sum().backward();
    return last(net, b, x);
  };
  Pipeline<models::Mlp> towers(how(sim_devices(2), 2));
  calls() = 0;
  EXPECT_NE(
      refusal::message_of([&] { towers.step(vectors(0), stages(writes, last)); }).find("in place"),
      std::string::npos);
  EXPECT_NE(refusal::message_of([&] {
              towers.step(vectors(0), stages(first, backward));
            }).find("leave backward() to Lockstep"),
            std::string::npos);
  EXPECT_TRUE(towers.step(vectors(0), stages(first, last)).applied);
}

TEST_F(PipelineFailure, AStageThatWritesAParameterIsRefusedByName) {
  const auto last = [](models::Mlp& net, const Batch& b, const Tensor& x) {
    return cross_entropy(net.second(torch::relu(x)), b.second);
  };
  const auto in_place = [](models::Mlp& net, const Batch& b) {
    const torch::NoGradGuard no_grad;
    net.first->weight.mul_(0.5);
    const torch::AutoGradMode grad(true);
    return net.first(b.first);
  };
  const auto unseen = [](models::Mlp& net, const Batch& b) {
    const Tensor x = net.first(b.first);
    net.first->weight.data().mul_(0.5);
    return x;
  };
  for (const auto& devices : {cpu_devices(2), sim_devices(2)}) {
    Pipeline<models::Mlp> one(how(devices, 2)), two(how(devices, 2));
    refusal::expect_refused(
        refusal::message_of([&] { one.step(vectors(0), stages(in_place, last)); }), "first.weight",
        "parameters change between steps only");
    refusal::expect_refused(
        refusal::message_of([&] { two.step(vectors(0), stages(unseen, last)); }), "first.weight",
        "parameters change between steps only");
  }
}

TEST_F(PipelineFailure, AModelWrittenThroughAnOldReferenceIsRefused) {
  with_deep(2, [&](const auto& loss) {
    Pipeline<Deep> towers(how(sim_devices(2), 2));
    Deep& model = towers.model();
    towers.step(vectors(0), loss);
    {
      const torch::NoGradGuard no_grad;
      model.head->bias.add_(1);
    }
    EXPECT_NE(refusal::message_of([&] { towers.step(vectors(1), loss); }).find("call model()"),
              std::string::npos);
  });
}

}  // namespace pipeline_failure_test
