#include "strategy/towers.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

#include "collective/exchange.h"
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
  const Ranges ranges = even_ranges(method_.shards, places.size());
  for (const Place place : places) {
    const bool alone = ties_ == Ties::alone;
    const Rank rank{alone ? 0 : size()};
    const ShardRange range = alone ? ShardRange{0, method_.shards} : ranges[towers_.size()];
    towers_.emplace_back(rank, place, device(place), range, tree_sum(rank, range));
    tower_at_[place.index()] = &towers_.back();
  }
  run([this](Tower& tower) {  // each thread touches its slots first
    tower.generator = device::make_generator(tower.device);
    if (ties_ == Ties::together)
      make_slices(tower, replicas_.parameters(tower.place), map_.layouts, map_.buckets, size(),
                  made_with_);
  });
  if (ties_ == Ties::together) collective_ = make_collective(towers_);
  for (std::size_t i = 0; i < towers_.size() && ties_ == Ties::alone; ++i)
    alone_.push_back(make_collective({&towers_[i], 1}));
}

void Towers::assign(const Ranges& ranges) {
  collective_.reset();  // and its memory
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    towers_[i].shards = ranges[i];
    towers_[i].gradients = tree_sum(towers_[i].rank, ranges[i]);
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
      copy_all(own[i], slices_of(kept[i], map_.buckets, tower.rank, size()));
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
  return strategy::make_collective(members, method_, where_, map_.layouts, map_.buckets,
                                   pool_.has_cores());
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
    } catch (...) {
      first.keep(tower);
      collective_->abort();
    }
  });
  for (Tower& tower : towers_) tower.shard = -1;
  return first.get();
}

}  // namespace lockstep::strategy
