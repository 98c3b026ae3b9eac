#pragma once

// The engine of Async: towers compute one batch each, and updates are applied one after the other.
//
// async_engine.cpp  towers at work: who computes and who applies what, and when
// async_step.cpp    one batch: its gradient, its update
// async_state.cpp   what is between steps: the caller's model, evaluation, saving, loading
//
// Two rules make it simple. A batch that was begun is computed ahead of its step, but nothing is
// applied unless the caller waits in step(): between steps the weights stand still, and what was
// computed ahead can be dropped and computed again. And in Order::delay the number of the batch
// says which version of the weights it is computed with, so it does not matter who computes it
// when.

#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "strategy/core.h"
#include "strategy/versions.h"

namespace lockstep::strategy {

class AsyncEngine : public Core {
 public:
  AsyncEngine(MirroredOptions options, const Factory& replica, detail::Making making);
  ~AsyncEngine();

  /// Hands a batch to the towers. `work` lives as long as it takes.
  void begin(std::shared_ptr<const ShardWork> work);
  /// Waits for the next update: in Order::delay that of the batch that was begun first.
  StepResult step();
  std::int64_t begun() const { return static_cast<std::int64_t>(queue_.size()); }
  /// Forgets all batches that were begun and not applied.
  void drop();

  std::int64_t lookahead() const;
  void with_averaged_weights(const std::function<void()>& evaluation);
  State state();
  void load(const State& state);
  void reset_slots(const std::string& pattern);
  const torch::nn::Module& module();
  Place shown();

 private:
  /// What belongs to a version beside its weights. Tensors here are never written.
  struct Version {
    Flats buffers;  ///< on the CPU
    double loss_scale = 1;
    Seconds made{};  ///< when, by the devices' clock
  };

  /// A batch that was begun.
  struct Batch {
    enum class State { waiting, computing, done };

    std::shared_ptr<const ShardWork> work;
    std::int64_t number = 0;  ///< keys its random numbers
    std::vector<char> selected = {};
    Seconds begun{};  ///< when, by the devices' clock
    State state = State::waiting;

    // Once it is claimed.
    Place place = {};
    std::int64_t version = 0;  ///< of the weights that it is computed with
    bool audits = false;
    Version start = {};

    // Once it is done.
    std::optional<Failure> failure = std::nullopt;
    Outcome outcome = {};
    Gradient gradient = {};
    Flats buffers = {};  ///< what it made of the buffers; empty: nothing
    StepResult result = {};
    Seconds at{};  ///< when it was done
  };

  /// What a tower does.
  struct Standing {
    enum class At { coming, waiting, working, gone };
    At at = At::coming;
    Seconds since{};  ///< by the devices' clock
  };

  // Towers at work. The functions that take a lock hold it but for the time of their work.
  using Lock = std::unique_lock<std::mutex>;
  void run();  ///< starts the towers, if they do not run
  /// By the devices' clock: when towers began to run, or the last update. On simulated devices the
  /// caller's own clock may be ahead, for it is that of the first device.
  Seconds clock() { return std::max(started_, version_at(versions_->newest()).made); }
  void quiet();  ///< lets the towers end what they compute, and take nothing more
  void serve(Tower& tower);
  void compute_next(Tower& tower, Batch& batch, Seconds idle_since, Lock& lock);
  void apply_next(Tower& tower, Batch& batch, Lock& lock);
  Batch* to_apply(Place place);
  Batch* to_compute(Place place);
  bool has_work(Place place) { return to_apply(place) || to_compute(place); }
  bool in_turn(Place place);
  bool within_bound(const Batch& applied) const;
  void claim(Batch& batch, Place place);
  std::int64_t version_of(const Batch& batch) const {  ///< in Order::delay
    return std::max(first_version_, batch.number - how_.delay);
  }

  // One batch.
  void compute(Tower& tower, Batch& batch);
  Outcome gradient_of(Tower& tower, Batch& batch);
  void apply(Batch& batch);
  Version next_version(const Batch& batch) const;
  std::vector<collective::GradientSlice> gradient_slices(Place place, Gradient& gradient);
  void give_back(Place place, Gradient gradient);
  void mirror();

  // Between steps.
  void adopt();
  void take_over();
  void compute_again();
  void show_newest();
  void prepare_tasks() override;
  bool go_on_without(const TowerError& error) override;
  StepResult wait_for_update();
  [[noreturn]] void fail(const Failure& failure, std::int64_t step);
  void make_versions();
  void begin_versions();
  void swap_averages();
  Flats last_gradient() const;
  Version& version_at(std::int64_t version) {
    return beside_[static_cast<std::size_t>(version) % beside_.size()];
  }

  // Constant after construction.
  const Asynchrony how_;
  const DeviceKind kind_;
  const bool free_;     // Order::free
  const bool shares_;   // towers view versions where they are: on the CPU, in Order::delay
  const bool virtual_;  // time is virtual: who comes first by it goes first

  std::unique_ptr<Versions> versions_;
  std::vector<Version> beside_;  // by version modulo its size
  std::int64_t next_number_ = 0;
  std::int64_t first_version_ = 0;  // since towers were made, or a state was loaded
  std::int64_t home_version_ = -1;  // that the home replica shows; the caller's
  std::vector<char> trainable_;     // as the home had it when the batches at work were begun
  Towers::Job job_;
  bool running_ = false;
  Seconds started_{};  // when towers began to run, by the devices' clock

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::int64_t newest_ = 0;  // version that is complete, with what is beside it
  std::list<Batch> queue_;   // begun and not applied, in that order
  std::map<Place, Standing> standing_;
  bool open_ = false;    // the caller waits for an update
  bool ending_ = false;  // towers take nothing more
  bool applying_ = false;
  bool held_ = false;               // the caller may be writing the newest version
  int pulling_ = 0;                 // towers that copy the newest version
  std::optional<Batch> applied_;    // what the caller waits for
  std::optional<Failure> torn_by_;  // an update failed
  std::map<Place, std::vector<Gradient>> spare_;
  Gradient last_;  // that was applied
  Place last_place_ = {};
  std::vector<Flats> mirrored_versions_, mirrored_kept_;  // on the host, to replay a lost device
};

}  // namespace lockstep::strategy
