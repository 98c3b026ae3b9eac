#pragma once

// The towers at work: their threads, their shards and slices, and how they combine.

#include <lockstep/error.h>
#include <lockstep/method.h>
#include <lockstep/where.h>

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collective/collective.h"
#include "device/tower_pool.h"
#include "strategy/replica.h"
#include "strategy/roster.h"
#include "strategy/tower.h"

namespace lockstep::strategy {

/// Whether a tower failed because of its device: lost, or out of memory.
bool is_device_failure(const std::exception_ptr& cause);

/// What ended a job on the towers, and where.
struct Failure {
  std::string device;  ///< a tower may have been the one to notice that another's is lost: that one
  int shard = -1;
  Stage stage = Stage::input;
  std::exception_ptr cause;
};

/// The exception at work, as the failure of `tower`.
Failure current_failure(const Tower& tower);

/// The first failure of all towers.
class FirstFailure {
 public:
  /// Keeps the exception at work as `tower`'s, unless another one was first. Any thread.
  void keep(const Tower& tower) {
    const std::scoped_lock lock(mutex_);
    if (!failure_) failure_ = current_failure(tower);
  }

  /// When all towers are done.
  const std::optional<Failure>& get() const { return failure_; }

 private:
  std::mutex mutex_;
  std::optional<Failure> failure_;  // guarded by mutex_
};

/// Gives a tower, one of so many that share the update, its slices of the buckets of `whole`
/// arenas, with fresh slots. `layouts` must live on.
void make_slices(Tower& tower, const Flats& whole, const std::vector<arena::Layout>& layouts,
                 const std::vector<arena::Bucket>& buckets, int towers, const Method& method);

/// A tower, and whole arenas of the parameters where it updates them.
struct Member {
  const Tower& tower;
  const Flats& parameters;
};

/// How `members` combine, in order of their ranks: the devices decide.
std::unique_ptr<collective::Collective> make_collective(std::span<const Member> members,
                                                        const Method& method, const Where& where,
                                                        const std::vector<arena::Layout>& layouts,
                                                        const std::vector<arena::Bucket>& buckets,
                                                        bool has_cores);

/// The same with the towers of other machines: `ranges` by rank.
std::unique_ptr<collective::Collective> make_collective(std::span<const Member> members,
                                                        const Roster& roster, const Ranges& ranges,
                                                        const Method& method, const Where& where,
                                                        const std::vector<arena::Layout>& layouts,
                                                        const std::vector<arena::Bucket>& buckets,
                                                        bool has_cores);

/// How towers compute a batch: its shards dealt out among all of them, or one tower all of them.
enum class Ties { together, alone };

/// Use from one thread at a time; inside a job each tower's thread has its own tower.
class Towers {
 public:
  using Job = std::function<void(Tower&)>;
  /// Makes the collective of so many towers and shards.
  using MakeCollective =
      std::function<std::unique_ptr<collective::Collective>(int towers, int shards)>;

  /// No towers yet. Towers that are alone have no slices, and each has a collective of its own.
  /// `make_collective` is for tests; without it the devices decide. All else must
  /// live on.
  Towers(const Method& method, const Where& where, Ties ties, device::TowerPool& pool,
         const Replicas& replicas, const ParameterMap& map, MakeCollective make_collective);

  /// Makes towers at `places`, with fresh slots and even shards. All machines do so together.
  void make(const std::vector<Place>& places);
  /// Gives every tower, of all machines, the shards of its range.
  void assign(const Ranges& ranges);
  const Ranges& ranges() const { return ranges_; }  ///< by rank
  /// Writes what towers keep, see Tower::kept, from whole arenas.
  void restore(const std::vector<Flats>& kept);

  Tower* begin() { return towers_.data(); }
  Tower* end() { return towers_.data() + towers_.size(); }
  Tower& front() { return towers_.front(); }
  int size() const { return static_cast<int>(towers_.size()); }  ///< of this machine
  const Roster& roster() const { return roster_; }               ///< those of all machines
  Tower* at(Place place) { return tower_at_[place.index()]; }    ///< null where the device is gone
  const Device& device(Place place) const { return pool_.device(place.value); }

  /// What towers were made with: it decides on slots.
  const Method& made_with() const { return made_with_; }

  bool planned() const { return collective_ != nullptr; }
  /// For a new group of the same machines. What was under way in the old one is given up.
  void plan_anew(std::int64_t generation) {
    collective_.reset();
    roster_.generation = generation;
  }
  collective::Collective& collective();  ///< planned anew if need be

  /// The same of a tower that is alone.
  collective::Collective& collective_of(const Tower& tower);

  /// Runs `job` on each tower's thread. It must live on until finish() has returned, which rethrows
  /// an exception of the lowest tower that has one.
  void start(const Job& job);
  void finish() { pool_.finish(); }
  void run(const Job& job);  ///< both

  /// Runs `job`, in which towers may call the collective; the first one to fail frees the others.
  std::optional<Failure> run_together(const Job& job);

 private:
  TreeSum tree_sum(Rank rank, ShardRange range) const;
  std::unique_ptr<collective::Collective> make_collective(std::span<const Tower> towers) const;
  void tell_others(const Failure& failure) const;
  std::optional<Failure> failure_of_others() const;

  // Constant after construction.
  const Method& method_;    // but for the values of its optimizers
  const Method made_with_;  // whose slots towers have
  const Where& where_;
  const Ties ties_;
  device::TowerPool& pool_;
  const Replicas& replicas_;
  const ParameterMap& map_;
  const MakeCollective make_test_collective_;

  std::function<void(int place)> job_;
  std::unique_ptr<collective::Collective> collective_;          // null: to be planned anew
  std::vector<std::unique_ptr<collective::Collective>> alone_;  // by tower, where they are alone
  Roster roster_;
  Ranges ranges_;                 // by rank
  std::vector<Tower> towers_;     // of this machine, by rank
  std::vector<Tower*> tower_at_;  // by place
};

}  // namespace lockstep::strategy
