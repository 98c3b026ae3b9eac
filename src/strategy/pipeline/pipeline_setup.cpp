#include <torch/csrc/jit/runtime/graph_executor.h>

#include <algorithm>

#include "device/accelerator.h"
#include "optim/rules.h"
#include "strategy/pipeline/pipeline_engine.h"
#include "strategy/pipeline/schedule.h"
#include "strategy/ready_hook.h"
#include "strategy/setup.h"
#include "strategy/shard_scope.h"

namespace lockstep::strategy {
namespace {

PipelineOptions checked(PipelineOptions options) {
  const auto devices = static_cast<int>(options.where.devices.size());
  if (options.stages < 1 || devices % options.stages != 0 || devices == 0)
    throw ConfigError("there are " + std::to_string(devices) + " devices for " +
                      std::to_string(options.stages) +
                      " stages; give one device for each stage, or a multiple of it.");
  if (options.ahead < 0)
    throw ConfigError("ahead is " + std::to_string(options.ahead) + "; it must be 0 or more.");
  if (options.where.balance == Balance::automatic)
    throw ConfigError(
        "balance = automatic moves shards between devices; in a pipeline each device computes its "
        "stage of all shards. Leave it even, and move work to another stage.");
  refuse_machines(options.where, "Pipeline");
  if (options.method.async)
    throw ConfigError("method.async is of Async<Model>; leave it out, or use that.");
  MirroredOptions common =
      validated(MirroredOptions{std::move(options.method), std::move(options.where)});
  options.method = std::move(common.method);
  options.where = std::move(common.where);
  return options;
}

}  // namespace

std::size_t places_of(const PipelineOptions& options) {
  std::size_t places = 0;
  const int stages = std::max(options.stages, 1);
  for (int device = 0; device < static_cast<int>(options.where.devices.size()); ++device)
    places += 1 + static_cast<std::size_t>(in_flight(
                      device % stages, stages, std::max(options.method.shards, 1), options.ahead));
  return places;
}

PipelineEngine::PipelineEngine(PipelineOptions options, const Factory& replica, detail::Making)
    : options_(checked(std::move(options))),
      made_with_(options_.method),
      pool_(options_.where.devices),
      takes_batch_(static_cast<std::size_t>(options_.stages), 1),
      loss_scale_(options_.method.precision == Precision::float16 ? options_.method.loss_scaling
                                                                  : LossScaling{.initial = 1}) {
  make_models(replica);
  map_.emplace(whole().layouts(), 0);
  for (std::size_t i = 0; i < map_->layouts.size(); ++i) {  // what slots begin with
    const arena::Layout& layout = map_->layouts[i];
    const torch::Tensor& parameters = whole().parameters({0})[i];
    const optim::SliceUpdate fresh(layout, {0, layout.size}, parameters,
                                   arena::allocate(layout, torch::kCPU), made_with_);
    std::vector<torch::Tensor> parts = fresh.slots();
    if (fresh.average().defined()) parts.push_back(fresh.average());
    kept_.resize(parts.size());
    for (std::size_t k = 0; k < parts.size(); ++k) kept_[k].push_back(parts[k]);
  }
  kept_count_ = kept_.size();
  runner_.emplace(options_.method, options_.recompute, stages(), options_.ahead, *models_, *map_,
                  plan_);
  const int count = pool_.size() / stages();
  for (int i = 0; i < count; ++i) alive_.push_back(i);
  if (accelerators())
    for (const Device& device : options_.where.devices)
      input_streams_.push_back(device::new_stream(device));
  for (const std::string& note : {oversubscription(options_.where.devices, inventory()),
                                  uneven_shards(options_.method.shards, count)})
    if (!note.empty()) notes_.add(note);
  versions_ = versions();
}

PipelineEngine::~PipelineEngine() {
  for (const Replica& model : models_->others())  // the caller may keep its tensors
    call_no_more(model.tensors.trainable);
}

bool PipelineEngine::accelerators() const { return device::is_accelerator(kind()); }

/// All on the CPU: a device need not have room for more than its stage.
void PipelineEngine::make_models(const Factory& replica) {
  torch::jit::getProfilingMode() = false;  // for the whole process, see "Note: scripts"
  const auto seed = device::stream_seed(options_.method.seed, device::kInitStream, 0);
  pool_.run([&](int tower) {
    if (tower != 0) return;
    for (std::size_t place = 0; place < places_of(options_); ++place) {
      at::Generator generator = device::make_generator(Device{});
      generator.set_current_seed(seed);
      const device::RandomScope random(generator);
      const device::DeviceScope scope(torch::Device(torch::kCPU));
      std::shared_ptr<torch::nn::Module> made = replica({static_cast<int>(place)});
      if (!made)
        throw ConfigError("the model is null; return a module from the function that makes it.");
      place == 0 ? void(models_.emplace(std::move(made))) : models_->add(std::move(made));
    }
  });
  models_->require_apart();
  int next = pool_.size();
  for (int device = 0; device < pool_.size(); ++device) {
    in_flight_.emplace_back();
    for (int i = in_flight(device % stages(), stages(), options_.method.shards, options_.ahead);
         i > 0; --i)
      in_flight_.back().push_back({next++});
  }
  std::vector<std::string> names;
  for (const arena::Entry& entry : models_->first().tensors.trainable) names.push_back(entry.name);
  optim::validate(options_.method, names);
}

/// All that has to be there before a step: stages with their memory, and what the caller wrote.
void PipelineEngine::prepare(const detail::StageWork& work) {
  whole().adopt();
  models_->check({0});
  if (!plan_) {
    auto plan = plan_of(work);
    plan_ = std::move(plan);
    try {
      make_memory();
      make_towers();
      restore_kept(kept_);
      push();
    } catch (...) {  // the next step tries again
      towers_.clear();
      tower_at_.clear();
      memories_.clear();
      plan_.reset();
      throw;
    }
    if (!work.note.empty()) notes_.add(work.note);
    note_plan();
    if (!replays()) kept_.clear();
  } else if (shown_ || versions() != versions_) {
    if (stale_)
      throw ConfigError(
          "the model was written through a reference from before the last step, and had not got "
          "the weights of that step: call model() each time you write.");
    push();
  }
  for (const auto& at : towers_)
    for (const Place place : at->modules) {
      models_->share_frozen(place);
      models_->share_modes(place);
    }
}

/// Makes the towers of the replicas that are alive, with fresh slots and even shards.
void PipelineEngine::make_towers() {
  collectives_.clear();
  channels_.clear();
  towers_.clear();
  tower_at_.assign(static_cast<std::size_t>(pool_.size()), nullptr);
  const Ranges ranges = even_ranges(options_.method.shards, replicas());
  for (std::size_t q = 0; q < replicas(); ++q)
    for (int stage = 0; stage < stages(); ++stage) {
      const int index = alive_[q] * stages() + stage;
      const Rank rank{static_cast<int>(q)};
      TreeSum sum(ranges[q].first, ranges[q].end, options_.method.shards, map_->seats.size(),
                  accelerators() ? options_.method.reduction : Reduction::exact, rank);
      auto at = std::make_unique<StageTower>(stage, alive_[q], rank, Place{index},
                                             pool_.device(index), ranges[q], std::move(sum));
      at->number = static_cast<int>(towers_.size());
      at->modules = in_flight_[static_cast<std::size_t>(index)];
      at->flights.resize(at->modules.size());
      at->memory = &memory_of(alive_[q], at->stage_index());
      if (accelerators()) at->input_stream = &input_streams_[static_cast<std::size_t>(index)];
      if (stage > 0) {
        StageTower& before = *towers_.back();
        channels_.push_back(std::make_unique<Channel>(before.tower.device, at->tower.device));
        before.to_next = at->from_before = channels_.back().get();
        channels_.push_back(std::make_unique<Channel>(at->tower.device, before.tower.device));
        at->to_before = before.from_next = channels_.back().get();
      }
      tower_at_[static_cast<std::size_t>(index)] = at.get();
      towers_.push_back(std::move(at));
    }
  run([this](StageTower& at) {  // each thread touches its slots first
    seat(at);
    at.tower.generator = device::make_generator(at.tower.device);
    make_slices(at.tower, at.memory->parameters, layouts_[at.stage_index()].layouts,
                buckets_[at.stage_index()], static_cast<int>(replicas()), made_with_);
  });
  meeting_ = std::make_unique<collective::ThreadMeeting>(static_cast<int>(towers_.size()), kind(),
                                                         pool_.has_cores());
  for (std::size_t stage = 0; stage < plan_->stages(); ++stage)
    collectives_.push_back(make_collective(stage));
}

/// Of the towers of a stage.
std::unique_ptr<collective::Collective> PipelineEngine::make_collective(std::size_t stage) {
  std::vector<Member> members;
  for (const auto& at : towers_)
    if (at->stage_index() == stage) members.push_back({at->tower, at->memory->parameters});
  return strategy::make_collective(members, options_.method, options_.where,
                                   layouts_[stage].layouts, buckets_[stage], pool_.has_cores());
}

void PipelineEngine::stage(const std::vector<detail::Shards*>& shards) {
  const auto load = [&](StageTower& at) {
    try {
      if (takes_batch_[at.stage_index()]) runner_->load(at, *shards[at.stage_index()]);
    } catch (...) {
      at.tower.shard = -1;
      if (!is_device_failure(std::current_exception())) throw;
    }
  };
  if (plan_ && accelerators())
    run(load);  // before the first step, and on the CPU, the step does it
}

}  // namespace lockstep::strategy
