// Optimizers of groups, and parameters that have a gradient in some steps only.

#include <lockstep/checkpoint.h>

#include "folder.h"
#include "on_sim.h"
#include "refusal.h"

namespace groups_test {

using namespace on_sim;

/// `rare` has a gradient in every third step, `never` in none. Both fill whole slices of 4 towers.
struct Gappy : torch::nn::Module {
  explicit Gappy(bool wide = false) {
    body = register_module("body", torch::nn::Linear(12, 600));
    rare = register_module("rare", torch::nn::Linear(12, 1500));
    never = register_module("never", torch::nn::Linear(12, 1500));
    head = register_module("head", torch::nn::Linear(600, 5));
    if (wide) to(torch::kFloat64);
  }
  torch::Tensor forward(const torch::Tensor& x, bool with_rare) {
    const torch::Tensor out = head(torch::relu(body(x)));
    return with_rare ? out + rare(x).unflatten(1, {5, 300}).mean(2) : out;
  }
  torch::nn::Linear body = nullptr, rare = nullptr, never = nullptr, head = nullptr;
};

struct InStep {
  int step;
  torch::Tensor operator()(Gappy& model, const models::Batch& shard) const {
    const torch::Tensor x = shard.first.to(model.head->weight.scalar_type());
    return torch::nn::functional::cross_entropy(model.forward(x, step % 3 == 2), shard.second);
  }
};

const std::vector<std::pair<const char*, Optimizer>> kOptimizers = {
    {"Adam", Adam{.lr = 1e-2, .weight_decay = 0.1}},
    {"AdamW with amsgrad", AdamW{.lr = 1e-2, .beta2 = 0.9, .weight_decay = 0.1, .amsgrad = true}},
    {"damped Sgd", Sgd{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .dampening = 0.3}},
    {"RmsProp", RmsProp{.lr = 1e-2, .momentum = 0.9, .weight_decay = 0.1}},
    {"Adagrad", Adagrad{.lr = 1e-2, .lr_decay = 0.1, .weight_decay = 0.1}}};

std::unique_ptr<torch::optim::Optimizer> peer(const Optimizer& optimizer,
                                              std::vector<torch::Tensor> parameters) {
  using namespace torch::optim;
  switch (optimizer.index()) {
    case 0:
      return std::make_unique<SGD>(parameters,
                                   SGDOptions(0.1).momentum(0.9).weight_decay(0.1).dampening(0.3));
    case 1:
      return std::make_unique<torch::optim::Adam>(parameters, AdamOptions(1e-2).weight_decay(0.1));
    case 2:
      return std::make_unique<torch::optim::AdamW>(
          parameters,
          AdamWOptions(1e-2).betas(std::make_tuple(0.9, 0.9)).weight_decay(0.1).amsgrad(true));
    case 3:
      return std::make_unique<RMSprop>(parameters,
                                       RMSpropOptions(1e-2).momentum(0.9).weight_decay(0.1));
    default:
      return std::make_unique<torch::optim::Adagrad>(
          parameters, AdagradOptions(1e-2).lr_decay(0.1).weight_decay(0.1));
  }
}

/// `body` and `head` have optimizers of their own kind.
std::vector<Group> two_groups() {
  return {{"body.*", kOptimizers[1].second}, {"*.weight", kOptimizers[2].second}};
}

MirroredOptions how(std::vector<Device> devices, const Optimizer& optimizer,
                    std::vector<Group> groups = {}, int shards = 4) {
  return {.method = {.shards = shards,
                     .optimizer = optimizer,
                     .groups = std::move(groups),
                     .moving_average = MovingAverage{.decay = 0.9},
                     .seed = 7},
          .where = {.devices = std::move(devices)}};
}

const torch::Tensor& find(const std::vector<NamedTensor>& tensors, const std::string& name) {
  return std::ranges::find(tensors, name, &NamedTensor::name)->value;
}

/// Over a checkpoint on the disk, into new towers.
template <class... Args>
Mirrored<Gappy> resumed(const State& state, const MirroredOptions& options, Args... args) {
  const tests::Folder folder;
  save_checkpoint(folder.path("saved"), {.state = state});
  Mirrored<Gappy> towers(options, args...);
  towers.load(load_checkpoint(folder.path("saved")).state);
  return towers;
}

void run(Mirrored<Gappy>& towers, int begin, int end) {
  for (int step = begin; step < end; ++step) towers.step(models::vectors(step), InStep{step});
}

/// Ten steps on two towers, over a save after the fifth, against torch::optim on one model. In
/// float64, where only the order of sums differs: a few units of 1.1e-16 in each of ten updates.
void expect_torchs_result(const Optimizer& optimizer, const std::vector<Group>& groups,
                          const char* what) {
  const MirroredOptions options = how(cpu_devices(2), optimizer, groups);
  Mirrored<Gappy> towers(options, true);
  Gappy one(true);
  std::vector<std::vector<torch::Tensor>> members(groups.size() + 1);
  {
    const torch::NoGradGuard no_grad;
    const State begin = towers.state();
    for (auto& item : one.named_parameters()) {
      item.value().copy_(find(begin.parameters, item.key()));
      const std::string& name = item.key();
      const std::size_t group = groups.empty()              ? 0
                                : name.starts_with("body.") ? 1
                                : name.ends_with(".weight") ? 2
                                                            : 0;
      members[group].push_back(item.value());
    }
  }
  std::vector<std::unique_ptr<torch::optim::Optimizer>> peers;
  for (std::size_t i = 0; i < members.size(); ++i)
    peers.push_back(peer(i == 0 ? optimizer : groups[i - 1].optimizer, members[i]));
  for (int step = 0; step < 10; ++step) {
    const models::Batch batch = models::vectors(step);
    if (step == 5) towers = resumed(towers.state(), options, true);
    towers.step(batch, InStep{step});
    for (const auto& each : peers) each->zero_grad();
    InStep{step}(one, batch).backward();
    for (const auto& each : peers) each->step();
  }
  const State end = towers.state();
  for (const auto& item : one.named_parameters())
    EXPECT_LT((item.value() - find(end.parameters, item.key())).abs().max().item<double>(), 1e-12)
        << what << ", " << item.key();
  EXPECT_EQ(end.updates_of,
            (std::map<std::string, std::int64_t>{
                {"never.bias", 0}, {"never.weight", 0}, {"rare.bias", 3}, {"rare.weight", 3}}));
}

TEST(Groups, AParameterWithAGradientInEveryThirdStepEqualsTorchOptim) {
  for (const auto& [name, optimizer] : kOptimizers) expect_torchs_result(optimizer, {}, name);
}

TEST(Groups, OptimizersOfSeveralKindsEqualTorchOptim) {
  for (const auto& [name, optimizer] : kOptimizers)
    expect_torchs_result(optimizer, two_groups(), name);
}

/// Parameter, slots and moving average of `layer`, as they are in `state`.
std::vector<torch::Tensor> all_of(const State& state, const std::string& layer, bool averages) {
  std::vector<torch::Tensor> found;
  const auto add = [&](const std::vector<NamedTensor>& tensors) {
    for (const NamedTensor& each : tensors)
      if (each.name.starts_with(layer + ".")) found.push_back(each.value);
  };
  add(state.parameters);
  add(state.slots);
  if (averages) add(state.averages);
  return found;
}

bool same(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) { return torch::equal(x, y); });
}

/// The state after six steps, resumed after the third; what has no gradient is left alone.
State trained(const MirroredOptions& options, const std::string& what) {
  Mirrored<Gappy> towers(options);
  State before = towers.state();
  const State first = before;
  for (int step = 0; step < 6; ++step) {
    if (step == 3) towers = resumed(before, options);
    towers.step(models::vectors(step), InStep{step});
    State now = towers.state();
    EXPECT_TRUE(same(all_of(now, "never", true), all_of(first, "never", true))) << what;
    EXPECT_EQ(same(all_of(now, "rare", false), all_of(before, "rare", false)), step % 3 != 2)
        << what << ", step " << step;
    EXPECT_FALSE(same(all_of(now, "body", true), all_of(before, "body", true))) << what;
    before = std::move(now);
  }
  return before;
}

/// Also with fewer shards than towers, where some towers bring nothing.
void expect_same_on_1_to_4(const std::function<std::vector<Device>(int)>& devices) {
  for (const auto& [name, optimizer] : kOptimizers)
    for (const bool grouped : {false, true}) {
      const int shards = grouped ? 2 : 5;
      const auto groups = grouped ? two_groups() : std::vector<Group>{};
      const State one = trained(how(devices(1), optimizer, groups, shards), name);
      for (const int count : {2, 3, 4})
        EXPECT_EQ(
            first_difference(one, trained(how(devices(count), optimizer, groups, shards), name)),
            "")
            << name << " on " << count << " devices";
    }
}

TEST(Groups, WhatHasNoGradientIsLeftAloneOn1To4Devices) {
  expect_same_on_1_to_4([](int count) { return cpu_devices(count); });
}

TEST(Groups, WhatHasNoGradientIsLeftAloneOn1To4SimulatedDevices) {
  sim::configure({.devices = 4});
  expect_same_on_1_to_4(sim_devices);
}

TEST(Groups, EachParameterHasTheSlotsOfItsOwnOptimizer) {
  Mirrored<models::Mlp> towers(
      {.method = {.optimizer = Adagrad{},
                  .groups = {{"first.*", AdamW{.amsgrad = true}}, {"*.bias", Sgd{}}}},
       .where = {.devices = cpu_devices(2)}});
  std::string names;
  for (const NamedTensor& slot : towers.state().slots) names += slot.name + " ";
  EXPECT_EQ(names,
            "first.weight/exp_avg first.bias/exp_avg second.weight/sum first.weight/exp_avg_sq "
            "first.bias/exp_avg_sq first.weight/max_exp_avg_sq first.bias/max_exp_avg_sq ");
}

TEST(Groups, AStateOfOtherGroupsIsRefused) {
  const auto with = [](std::vector<Group> groups) {
    return Mirrored<models::Mlp>({.method = {.optimizer = Adam{}, .groups = std::move(groups)},
                                  .where = {.devices = cpu_devices(1)}});
  };
  const State plain = with({}).state();
  EXPECT_NE(refusal::message_of([&] { with({{"first.*", Adagrad{}}}).load(plain); }), "");
  EXPECT_EQ(refusal::message_of([&] { with({{"first.*", Adam{.lr = 1}}}).load(plain); }), "");
  State wrong = plain;
  wrong.updates_of["third.weight"] = 1;
  EXPECT_NE(refusal::message_of([&] { with({}).load(wrong); }).find("'third.weight'"),
            std::string::npos);
}

TEST(Groups, WhileAllHaveGradientsNothingIsCounted) {
  Mirrored<models::Mlp> towers({.where = {.devices = cpu_devices(2)}});
  for (int step = 0; step < 3; ++step) towers.step(models::vectors(step), models::CrossEntropy{});
  EXPECT_EQ(towers.state().updates, 3);
  EXPECT_TRUE(towers.state().updates_of.empty());
}

/// Every second step is about `body` alone, the others about `head` alone, as a GAN's are. What a
/// step is not about stays: parameter, slots, number and moving average.
State alternating(const MirroredOptions& options, int steps) {
  Mirrored<Gappy> towers(options);
  State before = towers.state();
  for (int step = 0; step < steps; ++step) {
    const std::string layer = step % 2 == 0 ? "body" : "head", other = step % 2 ? "body" : "head";
    if (step == 3) towers = resumed(before, options);
    towers.step(models::vectors(step), InStep{step}, {.update = layer + ".*"});
    State now = towers.state();
    EXPECT_TRUE(same(all_of(now, other, true), all_of(before, other, true))) << "step " << step;
    EXPECT_FALSE(same(all_of(now, layer, true), all_of(before, layer, true))) << "step " << step;
    before = std::move(now);
  }
  return before;
}

MirroredOptions of_a_gan(std::vector<Device> devices) {
  return how(std::move(devices), Sgd{},
             {{"body.*", Adam{.lr = 1e-2, .weight_decay = 0.1}},
              {"head.*", Sgd{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .dampening = 0.3}}});
}

TEST(Groups, StepsThatAlternateBetweenGroupsAreTheSameOn1To4Devices) {
  sim::configure({.devices = 4});
  for (const auto& devices : std::vector<std::function<std::vector<Device>(int)>>{
           [](int count) { return cpu_devices(count); }, sim_devices}) {
    const State one = alternating(of_a_gan(devices(1)), 6);
    EXPECT_EQ(one.updates, 6);
    EXPECT_EQ(one.updates_of.at("body.weight"), 3);
    EXPECT_EQ(one.updates_of.at("head.bias"), 3);
    for (const int count : {2, 3, 4})
      EXPECT_EQ(first_difference(one, alternating(of_a_gan(devices(count)), 6)), "");
  }
}

TEST(Groups, StepsThatAlternateBetweenGroupsEqualTwoOptimizersOfTorch) {
  Mirrored<Gappy> towers(of_a_gan(cpu_devices(2)), true);
  Gappy one(true);
  {
    const torch::NoGradGuard no_grad;
    const State begin = towers.state();
    for (auto& item : one.named_parameters())
      item.value().copy_(find(begin.parameters, item.key()));
  }
  const auto adam = peer(Adam{}, one.body->parameters()), sgd = peer(Sgd{}, one.head->parameters());
  for (int step = 0; step < 8; ++step) {
    const models::Batch batch = models::vectors(step);
    towers.step(batch, InStep{step}, {.update = step % 2 == 0 ? "body.*" : "head.*"});
    one.zero_grad();
    InStep{step}(one, batch).backward();
    (step % 2 == 0 ? adam : sgd)->step();
  }
  const State end = towers.state();
  for (const auto& item : one.named_parameters())  // as above: other orders of sums in float64
    EXPECT_LT((item.value() - find(end.parameters, item.key())).abs().max().item<double>(), 1e-12)
        << item.key();
}

TEST(Groups, WhatIsHeldStaysSoOverACheckpoint) {
  const MirroredOptions options = how(cpu_devices(2), Adam{.lr = 1e-2});
  Mirrored<Gappy> towers(options);
  run(towers, 0, 2);
  towers.set_trainable("body.*", false);
  Mirrored<Gappy> others = resumed(towers.state(), options);
  EXPECT_EQ(others.state().held, (std::vector<std::string>{"body.weight", "body.bias"}));
  run(towers, 2, 5);
  run(others, 2, 5);
  EXPECT_EQ(first_difference(towers.state(), others.state()), "");
  EXPECT_EQ(others.state().updates_of.at("body.weight"), 2);
}

TEST(Groups, AnUpdateByTheCallerIsNoneOfTheOptimizers) {
  MirroredOptions options = how(cpu_devices(2), Adam{.lr = 1e-2});
  options.method.moving_average.reset();
  Mirrored<Gappy> towers(options), fresh(options);
  towers.gradients(models::vectors(0), InStep{2});
  EXPECT_EQ(towers.state().updates_of.at("body.weight"), 0);
  towers.step(models::vectors(1), InStep{2});
  fresh.step(models::vectors(1), InStep{2});
  EXPECT_EQ(refusal::difference(fresh.state().parameters, towers.state().parameters), "");
}

/// Groups and a rule, so that all may change.
MirroredOptions with_rules(std::vector<Device> devices) {
  MirroredOptions options =
      how(std::move(devices), Adam{.lr = 1e-2, .weight_decay = 0.1},
          {{"head.*", Sgd{.lr = 0.1, .momentum = 0.9}}, {"rare.*", RmsProp{.momentum = 0.9}}});
  options.method.rules = {{.pattern = "*.bias", .weight_decay = 0.0}};
  return options;
}

TEST(Groups, AnOptimizerThatIsSetEqualsTowersThatWereMadeWithIt) {
  const Optimizer adam = Adam{.lr = 2e-2, .beta1 = 0.5, .epsilon = 1e-3, .weight_decay = 0.3},
                  sgd = Sgd{.lr = 0.2, .momentum = 0.5, .weight_decay = 0.2, .dampening = 0.1};
  MirroredOptions options = with_rules(cpu_devices(3));
  Mirrored<Gappy> towers(options);
  run(towers, 0, 4);
  options.method.optimizer = adam;
  options.method.groups[0].optimizer = sgd;
  set_learning_rate(options.method.groups[1].optimizer, 0.5);
  Mirrored<Gappy> others = resumed(towers.state(), options);
  towers.set_optimizer(adam);
  towers.set_optimizer("head.*", sgd);
  towers.set_learning_rate("rare.*", 0.5);
  EXPECT_EQ(changes(fields_of(towers.method()), fields_of(options.method)).size(), 0U);
  run(towers, 4, 8);
  run(others, 4, 8);
  EXPECT_EQ(first_difference(others.state(), towers.state()), "");
}

TEST(Groups, AfterALoadAReportTellsWhichValuesAreToBeSetAgain) {
  const MirroredOptions options = how(cpu_devices(2), Adam{}, {{"head.*", Sgd{.momentum = 0.9}}});
  Mirrored<Gappy> towers(options), others(options);
  towers.set_learning_rate(0.5);
  towers.set_optimizer("head.*", Sgd{.momentum = 0.5});
  towers.step(models::vectors(0), InStep{0});
  const tests::Folder folder;
  save_checkpoint(folder.path("one"), towers.state());
  others.load(load_checkpoint(folder.path("one")).state);
  const auto notes = [](Mirrored<Gappy>& strategy) {
    std::string all;
    for (const std::string& note : strategy.step(models::vectors(1), InStep{1}).notes)
      if (note.find("set_optimizer") != std::string::npos) all += note + "\n";
    return all;
  };
  EXPECT_EQ(notes(others),
            "groups.head.*.momentum was 0.5 when the state was taken, and is 0.9 now: a state does "
            "not set it, call set_optimizer.\n");
  EXPECT_EQ(notes(others), "");
  others.set_optimizer("head.*", Sgd{.momentum = 0.5});
  others.load(load_checkpoint(folder.path("one")).state);
  EXPECT_EQ(notes(others), "");
}

TEST(Groups, AMomentumOf0LeavesItsSlotAsItIs) {
  const auto sgd = [](double momentum) { return Sgd{.lr = 0.1, .momentum = momentum}; };
  Mirrored<Gappy> towers(how(cpu_devices(2), sgd(0.9))), plain(how(cpu_devices(2), sgd(0)));
  run(towers, 0, 2);
  State before = towers.state();
  towers.set_optimizer(sgd(0));
  before.slots.clear();
  plain.load(before);
  run(towers, 2, 4);
  run(plain, 2, 4);
  EXPECT_EQ(refusal::difference(plain.state().parameters, towers.state().parameters), "");
  EXPECT_FALSE(towers.state().slots.empty());
  towers.set_optimizer(sgd(0.5));  // the slot is there
}

TEST(Groups, AnOptimizerThatNeedsOtherSlotsOrIsNotOneIsRefusedByName) {
  Mirrored<models::Mlp> towers(
      {.method = {.optimizer = Adam{}, .groups = {{"first.*", Sgd{.lr = 0.1}}}},
       .where = {.devices = cpu_devices(1)}});
  const auto before = fields_of(towers.method());
  const auto expect = [](const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  using refusal::message_of;
  expect(message_of([&] { towers.set_optimizer(Sgd{}); }), "optimizer is Adam, not Sgd");
  expect(message_of([&] { towers.set_optimizer(Adam{.amsgrad = true}); }), "max_exp_avg_sq");
  expect(message_of([&] { towers.set_optimizer(Adam{.beta1 = 1}); }), "optimizer.beta1 is 1");
  expect(message_of([&] { towers.set_optimizer("first.*", Sgd{.momentum = 0.9}); }),
         "group 'first.*': optimizer would need the slots momentum");
  expect(message_of([&] { towers.set_optimizer("second.*", Sgd{}); }), "no group 'second.*'");
  expect(message_of([&] { towers.set_learning_rate("second.*", 1); }), "no group 'second.*'");
  expect(message_of([&] { towers.set_learning_rate("first.*", -1); }), "the learning rate is -1");
  expect(message_of([&] { towers.reset_slots("third.*"); }), "pattern 'third.*' matches no");
  EXPECT_EQ(fields_of(towers.method()), before);
}

/// Seven steps; the slots of two layers are reset after the fourth.
State with_reset(const MirroredOptions& options) {
  Mirrored<Gappy> towers(options);
  run(towers, 0, 4);
  const State before = towers.state();
  towers.reset_slots("body.*");
  State now = towers.state();
  const State fresh = Mirrored<Gappy>(options).state();
  for (std::size_t i = 0; i < now.slots.size(); ++i) {
    const bool reset = now.slots[i].name.starts_with("body.");
    const std::vector<NamedTensor>& expected = reset ? fresh.slots : before.slots;
    EXPECT_TRUE(torch::equal(now.slots[i].value, expected[i].value)) << now.slots[i].name;
  }
  EXPECT_EQ(now.updates_of.at("body.weight"), 0);
  EXPECT_EQ(now.updates_of.at("rare.bias"), 1);
  EXPECT_FALSE(now.updates_of.contains("head.bias"));
  now.slots = before.slots;
  now.updates_of = before.updates_of;
  EXPECT_EQ(first_difference(before, now), "") << "only slots and numbers change";
  run(towers, 4, 7);
  return towers.state();
}

TEST(Groups, SlotsAreResetTheSameOn1To4Devices) {
  sim::configure({.devices = 4});
  for (const auto& devices : std::vector<std::function<std::vector<Device>(int)>>{
           [](int count) { return cpu_devices(count); }, sim_devices}) {
    const State one = with_reset(with_rules(devices(1)));
    for (const int count : {2, 3, 4})
      EXPECT_EQ(first_difference(one, with_reset(with_rules(devices(count)))), "");
  }
}

TEST(Groups, AfterAResetTheNextUpdateIsTheFirst) {
  const MirroredOptions options = how(cpu_devices(2), Adam{.lr = 1e-2});
  Mirrored<Gappy> towers(options), fresh(options);
  run(towers, 0, 4);
  State begin = fresh.state();
  begin.parameters = towers.state().parameters;
  begin.averages = towers.state().averages;
  fresh.load(begin);
  towers.reset_slots("*");
  run(towers, 4, 6);
  run(fresh, 4, 6);
  EXPECT_EQ(refusal::difference(fresh.state().parameters, towers.state().parameters), "");
}

TEST(Groups, ADeviceThatIsLostAfterChangesIsReplayed) {
  const auto train = [](const std::vector<sim::Fault>& faults) {
    sim::configure({.devices = 3, .faults = faults});
    MirroredOptions options = with_rules(sim_devices(3));
    options.where.on_device_failure = OnDeviceFailure::replay;
    Mirrored<Gappy> towers(options);
    run(towers, 0, 3);
    towers.set_optimizer("head.*", Sgd{.lr = 0.1});  // its momentum's slot stays
    towers.reset_slots("body.*");
    const auto lost = faults.size();
    EXPECT_EQ(towers.step(models::vectors(3), InStep{3}).towers.size(), 3 - lost);
    run(towers, 4, 6);
    return towers.state();
  };
  const State whole = train({});
  for (int device = 0; device < 3; ++device)
    EXPECT_EQ(first_difference(whole, train({{.device = device, .step = 3, .at = 5}})), "");
}

TEST(Groups, ADeviceThatIsLostWhileSlotsAreResetIsReplayedOrTheTowersAreTorn) {
  MirroredOptions options = with_rules(sim_devices(3));
  options.where.on_device_failure = OnDeviceFailure::replay;
  std::int64_t reset = 0, done = 0;  // operators of step 2 until then
  const auto train = [&](const std::vector<sim::Fault>& faults) {
    sim::configure({.devices = 3, .faults = faults});
    Mirrored<Gappy> towers(options);
    run(towers, 0, 3);
    if (faults.empty()) reset = sim::usage(1).operators;
    towers.reset_slots("*");
    if (faults.empty()) done = sim::usage(1).operators;
    EXPECT_EQ(towers.step(models::vectors(3), InStep{3}).towers.size(), 3 - faults.size());
    return towers.state();
  };
  const State whole = train({});
  ASSERT_GT(done, reset);
  for (std::int64_t at = reset; at < done; ++at)
    EXPECT_EQ(first_difference(whole, train({{.device = 1, .step = 2, .at = at}})), "") << at;
  options.where.on_device_failure = OnDeviceFailure::stop;
  train({});
  sim::configure({.devices = 3, .faults = {{.device = 1, .step = 2, .at = reset}}});
  Mirrored<Gappy> towers(options);
  run(towers, 0, 3);
  EXPECT_THROW(towers.reset_slots("*"), TowerError);
  EXPECT_THROW(towers.step(models::vectors(3), InStep{3}), std::logic_error);
}

}  // namespace groups_test
