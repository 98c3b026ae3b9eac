#include "strategy/towers.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

#include "collective/across_machines.h"
#include "collective/exchange.h"
#include "collective/machine_transport.h"
#include "collective/shared_memory.h"
#include "collective/thread_meeting.h"
#include "device/accelerator.h"

namespace lockstep::strategy {

bool is_device_failure(const std::exception_ptr& cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const DeviceLost&) {
    return true;
  } catch (const c10::OutOfMemoryError&) {
    return true;
  } catch (const c10::AcceleratorError&) {
    return true;
  } catch (...) {
    return false;
  }
}

Failure current_failure(const Tower& tower) {
  Failure failure{tower.device.name(), tower.shard, tower.clock.stage(), std::current_exception()};
  try {
    throw;
  } catch (const DeviceLost& lost) {
    if (lost.device != failure.device) failure.shard = -1;
    failure.device = lost.device;
  } catch (...) {
  }
  return failure;
}

void make_slices(Tower& tower, const Flats& whole, const std::vector<arena::Layout>& layouts,
                 const std::vector<arena::Bucket>& buckets, int towers, const Method& method) {
  const Flats parameters = slices_of(whole, buckets, tower.rank, towers);
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const arena::Layout& layout = layouts[buckets[i].arena];
    const arena::Slice range = arena::slice_of(buckets[i], tower.rank, towers);
    const torch::Tensor gradient =
        arena::allocate(range.size(), layout.dtype, parameters[i].device());
    const auto blocks =
        static_cast<std::size_t>((range.size() + arena::kBlock - 1) / arena::kBlock);
    tower.slices.push_back({&layout, range, gradient, std::vector<double>(blocks)});
    tower.updates.emplace_back(layout, range, parameters[i], gradient, method);
  }
}

std::unique_ptr<collective::Collective> make_collective(std::span<const Member> members,
                                                        const Method& method, const Where& where,
                                                        const std::vector<arena::Layout>& layouts,
                                                        const std::vector<arena::Bucket>& buckets,
                                                        bool has_cores) {
  const int count = static_cast<int>(members.size());
  const DeviceKind kind = where.devices.front().kind;
  auto meeting = std::make_unique<collective::ThreadMeeting>(count, kind, has_cores);
  if (!device::is_accelerator(kind))
    return std::make_unique<collective::SharedMemory>(std::move(meeting), method.shards);
  const bool fast = method.reduction == Reduction::fast;
  std::vector<collective::Party> parties;
  std::vector<Device> devices;
  for (const auto& [tower, parameters] : members) {
    devices.push_back(tower.device);
    const ShardRange range = fast ? ShardRange{tower.rank, tower.rank + 1} : tower.shards;
    parties.push_back({tower.device, range.first, range.end, parameters});
  }
  return std::make_unique<collective::Exchange>(
      std::move(parties),
      collective::ExchangeShape{fast ? count : method.shards, layouts, buckets, where.exchange,
                                method.reduction},
      std::move(meeting), collective::make_transport(where.exchange.transport, devices));
}

std::unique_ptr<collective::Collective> make_collective(std::span<const Member> members,
                                                        const Roster& roster, const Ranges& ranges,
                                                        const Method& method, const Where& where,
                                                        const std::vector<arena::Layout>& layouts,
                                                        const std::vector<arena::Bucket>& buckets,
                                                        bool has_cores) {
  if (!where.machines) return make_collective(members, method, where, layouts, buckets, has_cores);
  const DeviceKind kind = where.devices.front().kind;
  auto meeting =
      std::make_unique<collective::MachineMeeting>(where.machines, roster.towers, kind, has_cores);
  if (!device::is_accelerator(kind)) {
    std::vector<collective::Shares> shares;
    for (const ShardRange& range : ranges) shares.push_back({range.first, range.end});
    return std::make_unique<collective::AcrossMachines>(
        where.machines, std::move(meeting),
        collective::MachinePlan(roster.towers, shares, method.shards), layouts, buckets,
        members.front().parameters);
  }
  const bool fast = method.reduction == Reduction::fast;
  std::vector<collective::Party> parties;
  for (int machine = 0, rank = 0; machine < std::ssize(roster.towers); ++machine)
    for (int i = 0; i < roster.towers[static_cast<std::size_t>(machine)]; ++i, ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      const ShardRange range = fast ? ShardRange{rank, rank + 1} : ranges[at];
      const bool here = machine == roster.machine;
      parties.push_back(
          {roster.devices[at], range.first, range.end,
           here ? members[static_cast<std::size_t>(rank - roster.first)].parameters : Flats{},
           machine});
    }
  return std::make_unique<collective::Exchange>(
      std::move(parties),
      collective::ExchangeShape{fast ? roster.total() : method.shards, layouts, buckets,
                                where.exchange, method.reduction, roster.machine},
      std::move(meeting),
      collective::make_machine_transport(where.exchange.transport, where.machines, roster.towers,
                                         roster.devices));
}

Towers::Towers(const Method& method, const Where& where, Ties ties, device::TowerPool& pool,
               const Replicas& replicas, const ParameterMap& map, MakeCollective make_collective)
    : method_(method),
      made_with_(method),
      where_(where),
      ties_(ties),
      pool_(pool),
      replicas_(replicas),
      map_(map),
      make_test_collective_(std::move(make_collective)) {}

void Towers::make(const std::vector<Place>& places) {
  collective_.reset();  // and its memory
  alone_.clear();
  towers_.clear();
  towers_.reserve(places.size());
  tower_at_.assign(static_cast<std::size_t>(pool_.size()), nullptr);
  std::vector<Device> devices;
  for (const Place place : places) devices.push_back(device(place));
  roster_ = roster_of(where_, devices);
  ranges_ = even_ranges(method_.shards, static_cast<std::size_t>(roster_.total()));
  for (const Place place : places) {
    const bool alone = ties_ == Ties::alone;
    const Rank rank{alone ? 0 : roster_.first + size()};
    const ShardRange range =
        alone ? ShardRange{0, method_.shards} : ranges_[static_cast<std::size_t>(rank)];
    towers_.emplace_back(rank, place, device(place), range, tree_sum(rank, range));
    tower_at_[place.index()] = &towers_.back();
  }
  run([this](Tower& tower) {  // each thread touches its slots first
    tower.generator = device::make_generator(tower.device);
    if (ties_ == Ties::together)
      make_slices(tower, replicas_.parameters(tower.place), map_.layouts, map_.buckets,
                  roster_.total(), made_with_);
  });
  if (ties_ == Ties::together) collective_ = make_collective(towers_);
  for (std::size_t i = 0; i < towers_.size() && ties_ == Ties::alone; ++i)
    alone_.push_back(make_collective({&towers_[i], 1}));
}

void Towers::assign(const Ranges& ranges) {
  collective_.reset();  // and its memory
  ranges_ = ranges;
  for (Tower& tower : towers_) {
    tower.shards = ranges[static_cast<std::size_t>(tower.rank)];
    tower.gradients = tree_sum(tower.rank, tower.shards);
  }
  collective_ = make_collective(towers_);
}

TreeSum Towers::tree_sum(Rank rank, ShardRange range) const {
  // In one memory the exact order costs nothing.
  const bool accelerators = device::is_accelerator(where_.devices.front().kind);
  const Reduction reduction = accelerators ? method_.reduction : Reduction::exact;
  return {range.first, range.end, method_.shards, map_.seats.size(), reduction, rank};
}

void Towers::restore(const std::vector<Flats>& kept) {
  for (const Tower& tower : towers_) {
    const std::vector<Flats> own = tower.kept();
    for (std::size_t i = 0; i < own.size(); ++i)
      copy_all(own[i], slices_of(kept[i], map_.buckets, tower.rank, roster_.total()));
  }
}

collective::Collective& Towers::collective() {
  if (!collective_) collective_ = make_collective(towers_);
  return *collective_;
}

collective::Collective& Towers::collective_of(const Tower& tower) {
  return *alone_[static_cast<std::size_t>(&tower - towers_.data())];
}

std::unique_ptr<collective::Collective> Towers::make_collective(
    std::span<const Tower> towers) const {
  if (make_test_collective_)
    return make_test_collective_(static_cast<int>(towers.size()), method_.shards);
  std::vector<Member> members;
  for (const Tower& tower : towers) members.push_back({tower, replicas_.parameters(tower.place)});
  if (ties_ == Ties::alone)
    return strategy::make_collective(members, method_, where_, map_.layouts, map_.buckets,
                                     pool_.has_cores());
  return strategy::make_collective(members, roster_, ranges_, method_, where_, map_.layouts,
                                   map_.buckets, pool_.has_cores());
}

void Towers::start(const Job& job) {
  job_ = [this, &job](int place) {
    if (Tower* tower = at({place})) job(*tower);
  };
  pool_.start(job_);
}

void Towers::run(const Job& job) {
  start(job);
  finish();
}

std::optional<Failure> Towers::run_together(const Job& job) {
  collective().reset();
  FirstFailure first;
  run([&](Tower& tower) {
    try {
      job(tower);
    } catch (const collective::Aborted&) {
    } catch (const MachinesError&) {
      collective_->abort();
    } catch (...) {
      first.keep(tower);
      collective_->abort();
      tell_others(current_failure(tower));
    }
  });
  for (Tower& tower : towers_) tower.shard = -1;
  return first.get() ? first.get() : failure_of_others();
}

/// Machines that wait for this one do so no longer.
void Towers::tell_others(const Failure& failure) const {
  if (!where_.machines) return;
  std::string text = failure.device + ", ";
  if (failure.shard >= 0) text += "shard " + std::to_string(failure.shard) + ", ";
  text += std::string(name_of(failure.stage)) + ": ";
  try {
    std::rethrow_exception(failure.cause);
  } catch (const std::exception& error) {
    text += error.what();
  } catch (...) {
    text += "an exception of unknown type";
  }
  where_.machines->abort(text);
}

/// What another machine has failed of.
std::optional<Failure> Towers::failure_of_others() const {
  if (!where_.machines) return std::nullopt;
  const std::optional<Trouble> trouble = where_.machines->trouble();
  if (!trouble) return std::nullopt;
  Failure failure{.device = trouble->failed,
                  .stage = towers_.front().clock.stage(),
                  .cause = std::make_exception_ptr(MachinesError(*trouble))};
  for (const std::string& name : trouble->lost)
    failure.device += (failure.device.empty() ? "" : ", ") + name;
  for (const Tower& tower : towers_)
    if (tower.clock.stage() == Stage::update) failure.stage = Stage::update;
  return failure;
}

}  // namespace lockstep::strategy
