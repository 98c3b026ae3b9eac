#pragma once

// The engine of Pipeline: one exact step through all stages.
//
// pipeline_engine.cpp    the step
// pipeline_setup.cpp     models and towers
// pipeline_trial.cpp     which stage uses which parameter
// pipeline_memory.cpp    where the weights are, and how they get there
// pipeline_evaluate.cpp  evaluation
// pipeline_state.cpp     what is saved and loaded
// pipeline_report.cpp    what a step tells
//
// Its parts: plan.h (which parameter is whose), stage_runner.h (forward and backward), channel.h
// (from stage to stage), schedule.h (in which order).
//
// The model that the caller sees is whole and on the CPU. Once a trial has shown which parameter is
// whose, the weights that count are those of the stages; the whole model gets them when somebody
// looks at it, and hands back what the caller wrote.

#include <lockstep/pipeline.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collective/thread_meeting.h"
#include "device/placement.h"
#include "device/tower_pool.h"
#include "optim/loss_scale.h"
#include "optim/update_numbers.h"
#include "strategy/outcome.h"
#include "strategy/pipeline/stage_runner.h"
#include "strategy/selection.h"
#include "strategy/step_report.h"
#include "strategy/surviving.h"
#include "strategy/torn.h"
#include "strategy/towers.h"

namespace lockstep::strategy {

/// Models of a pipeline, by place: one for each device, whole, on the CPU; then, device by device,
/// one for each shard in flight.
std::size_t places_of(const PipelineOptions& options);

class PipelineEngine {
 public:
  using Task = std::function<void(Place place)>;
  using Factory = std::function<std::shared_ptr<torch::nn::Module>(Place place)>;

  PipelineEngine(PipelineOptions options, const Factory& replica, detail::Making making);
  ~PipelineEngine();
  PipelineEngine(const PipelineEngine&) = delete;
  PipelineEngine& operator=(const PipelineEngine&) = delete;

  void stage(const std::vector<detail::Shards*>& shards);
  StepResult step(const detail::StageWork& work);
  /// See PipelineBase::run_trial.
  using Trial = std::function<bool(Place place, int shard)>;
  void trial(detail::Shards& shards, const Trial& work);
  void run_tasks(const std::function<Task()>& next);
  void with_averaged_weights(const std::function<void()>& evaluation);
  State state();
  void load(const State& state);

  const PipelineOptions& options() const { return options_; }
  Seconds now() const;
  const torch::nn::Module& module();
  void set_learning_rate(std::size_t number, double lr);
  void set_optimizer(std::size_t number, const Optimizer& optimizer);
  void reset_slots(const std::string& pattern);
  void set_trainable(const std::string& pattern, bool trainable);
  std::int64_t steps() const { return steps_; }
  std::int64_t skipped() const { return steps_ - updates_; }
  Place shown();

 private:
  using Job = std::function<void(StageTower&)>;

  // The step.
  StepResult attempt(const detail::StageWork& work, Seconds begin);
  Outcome train(StageTower& at, const detail::StageWork& work);
  void reduce(StageTower& at, Outcome& outcome);
  void update(StageTower& at, const Outcome& outcome);
  Pass begin_pass(const detail::StageWork& work);
  void require_gradients(const std::vector<char>& wanted);
  std::optional<Failure> run_together(const Job& job);
  void run(const Job& job);
  void settle_buffers();
  void clear_away();

  // Setup: models, stages, towers.
  void make_models(const Factory& replica);
  void prepare(const detail::StageWork& work);
  std::unique_ptr<StagePlan> plan_of(const detail::StageWork& work);
  void make_memory();
  void seat(const StageTower& at);
  void make_towers();
  std::unique_ptr<collective::Collective> make_collective(std::size_t stage);
  StageMemory& memory_of(int replica, std::size_t stage);
  torch::Tensor room_of(int replica, std::size_t stage, std::size_t parameter);
  void push();
  void pull();
  std::int64_t versions() const;

  // State.
  using Parts = std::function<torch::Tensor(const StageTower& at, std::size_t slice)>;
  void copy_out(const StageTower& at, const Parts& part, const Flats& whole) const;
  void copy_in(const StageTower& at, const Parts& part, const Flats& whole) const;
  static torch::Tensor kept_part(const StageTower& at, std::size_t slice, std::size_t i);
  std::vector<Flats> collect_kept();
  void restore_kept(const std::vector<Flats>& kept);
  Flats collect_gradients();
  void mirror(const StageTower& at);
  State copy_of_state();

  // Failures.
  void fail(const Failure& failure) const;
  template <class Work>
  auto surviving(const char* stage, const Work& work) {
    const auto go_on = [this](const TowerError& error) { return go_on_without(error); };
    return strategy::surviving(stage, steps_, go_on, work);
  }
  bool go_on_without(const TowerError& error);

  // Reports.
  StepResult report(std::int64_t step, const detail::StageWork& work, const Outcome& outcome,
                    Seconds begin);
  void note_plan();
  void trace();

  Replicas& whole() { return models_->whole(); }
  const Replicas& whole() const { return models_->whole(); }
  int stages() const { return options_.stages; }
  std::size_t replicas() const { return alive_.size(); }
  DeviceKind kind() const { return options_.where.devices.front().kind; }
  bool accelerators() const;
  bool replays() const { return options_.where.on_device_failure == OnDeviceFailure::replay; }

  PipelineOptions options_;  // constant, but for the values of optimizers
  const Method made_with_;   // whose slots towers have
  device::TowerPool pool_;
  std::optional<StageModels> models_;
  std::optional<ParameterMap> map_;
  std::vector<std::vector<Place>> in_flight_;  // by device: its models beside the whole one
  std::vector<c10::Stream> input_streams_;     // by device; empty on the CPU
  std::vector<char> takes_batch_;              // by stage, in the last step
  std::vector<int> alive_;                     // replicas that are at work

  // From the first step on.
  std::unique_ptr<StagePlan> plan_;
  std::vector<StageLayout> layouts_;                 // by stage
  std::vector<std::vector<arena::Bucket>> buckets_;  // by stage
  std::unique_ptr<StageNorm> norm_;
  std::map<std::pair<int, std::size_t>, StageMemory> memories_;       // by replica and stage
  std::unique_ptr<collective::ThreadMeeting> meeting_;                // of all towers
  std::vector<std::unique_ptr<collective::Collective>> collectives_;  // by stage
  std::vector<std::unique_ptr<Channel>> channels_;
  std::vector<std::unique_ptr<StageTower>> towers_;  // replica by replica
  std::vector<StageTower*> tower_at_;                // by device; null: not at work
  device::TensorNames names_;

  /// Where a parameter sits in its owner's arenas.
  struct OwnSeat {
    std::size_t layout = 0;
    const arena::Seat* seat = nullptr;
  };
  std::vector<OwnSeat> seats_;  // by parameter

  /// Slots and averages, by slot and arena of the whole model, on the host: before the first step,
  /// and to replay without a device.
  std::vector<Flats> kept_;
  std::size_t kept_count_ = 0;  // slots, and the average
  std::optional<StageRunner> runner_;
  std::vector<double> squares_;                      // of the step at work
  std::vector<StageRunner::ShardNorm> shard_norms_;  // by shard; each tower writes its own

  // The caller's.
  std::int64_t steps_ = 0, updates_ = 0;
  optim::UpdateNumbers numbers_;
  optim::LossScale loss_scale_;
  Torn torn_;
  bool averaged_ = false;      // inside with_averaged_weights
  Flats weights_;              // meanwhile
  bool stale_ = false;         // the whole model has not got the last update
  bool shown_ = false;         // the caller may have written to it
  std::int64_t versions_ = 0;  // of its tensors when all were alike
  Selection selection_;
  Notes notes_;
};

}  // namespace lockstep::strategy
