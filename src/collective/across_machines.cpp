#include "collective/across_machines.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "collective/tensor_letter.h"

namespace lockstep::collective {

AcrossMachines::AcrossMachines(std::shared_ptr<Machines> machines,
                               std::unique_ptr<MachineMeeting> meeting, MachinePlan plan,
                               const std::vector<arena::Layout>& layouts,
                               const std::vector<arena::Bucket>& buckets,
                               std::vector<torch::Tensor> parameters)
    : Collective(std::move(meeting)),
      machines_(std::move(machines)),
      meeting_(static_cast<MachineMeeting&>(this->meeting())),
      plan_(std::move(plan)),
      layouts_(layouts),
      buckets_(buckets),
      parameters_(std::move(parameters)),
      first_(plan_.first_tower[static_cast<std::size_t>(machines_->rank())]),
      own_merges_(merges_inside(plan_.shares[static_cast<std::size_t>(machines_->rank())].first,
                                plan_.shares[static_cast<std::size_t>(machines_->rank())].end,
                                plan_.shards)) {
  const int here = machines_->rank();
  by_tower_.resize(static_cast<std::size_t>(plan_.towers[static_cast<std::size_t>(here)]));
  updates_.resize(buckets_.size());
  const auto roots = [&](int machine) {
    return std::ssize(plan_.roots[static_cast<std::size_t>(machine)]);
  };
  for (const arena::Bucket& bucket : buckets_) {
    Traffic& traffic = *traffic_.emplace_back(std::make_unique<Traffic>());
    const auto room = [&](std::int64_t elements) {
      return arena::allocate(elements, layouts_[bucket.arena].dtype, torch::kCPU);
    };
    for (int machine = 0; machine < plan_.machines(); ++machine) {
      const bool other = others(machine);
      traffic.out.push_back(other ? room(roots(here) * plan_.run(bucket, machine).size())
                                  : torch::Tensor());
      traffic.in.push_back(other ? room(roots(machine) * plan_.run(bucket, here).size())
                                 : torch::Tensor());
    }
  }
}

AcrossMachines::~AcrossMachines() { end_transfers(); }

/// What `machine` owns of a bucket, in this machine's arena.
torch::Tensor AcrossMachines::parameters_of(std::size_t bucket, int machine) const {
  const arena::Slice run = plan_.run(buckets_[bucket], machine);
  return parameters_[buckets_[bucket].arena].narrow(0, run.begin, run.size());
}

/// Waits for whatever is under way; in trouble that throws at once.
void AcrossMachines::end_transfers() noexcept {
  const auto end = [](Transfers& transfers) {
    for (const auto& transfer : transfers) try {
        transfer->wait();
      } catch (...) {  // all of them are told the same
      }
    transfers.clear();
  };
  end(sending_);
  for (const auto& traffic : traffic_) end(traffic->arriving);
}

void AcrossMachines::reset() {
  Collective::reset();
  begun_ = false;
  gathering_begun_ = false;
  updates_.assign(updates_.size(), 0);
  for (PerTower& tower : by_tower_) tower.sums = {};
  for (const auto& traffic : traffic_) {
    traffic->posts = 0;
    traffic->sent = false;
  }
}

/// Makes room for what the others will send in this step. Once a step, by whoever comes first.
void AcrossMachines::begin() {
  const std::scoped_lock lock(mutex_);
  if (std::exchange(begun_, true)) return;
  for (const auto& transfer : sending_) transfer->wait();  // their memory is written again
  sending_.clear();
  for (std::size_t bucket = 0; bucket < traffic_.size(); ++bucket)
    for (int machine = 0; machine < plan_.machines(); ++machine)
      if (others(machine))
        traffic_[bucket]->arriving.push_back(machines_->receive(
            machine, kReduceTag + static_cast<std::uint32_t>(bucket),
            writable_bytes_of(traffic_[bucket]->in[static_cast<std::size_t>(machine)])));
}

void AcrossMachines::post(int tower, std::size_t bucket, std::span<const ShardSum> mine) {
  if (aborted()) throw Aborted();
  begin();
  PerTower& own = by_tower_[static_cast<std::size_t>(local(tower))];
  Traffic& traffic = *traffic_[bucket];
  {
    const std::scoped_lock lock(traffic.mutex);
    if (own.sums.data() != mine.data()) own.sums = mine;  // others may be reading it
    if (++traffic.posts < by_tower_.size()) return;
    traffic.sent = true;
  }
  send(own, bucket);
}

const ShardSum* AcrossMachines::sum_of(std::size_t shard) const {
  for (const PerTower& tower : by_tower_)
    for (const ShardSum& sum : tower.sums)
      if (static_cast<std::size_t>(sum.first) == shard) return &sum;
  return nullptr;
}

/// Sends this machine's roots of a bucket to who owns it; `tower` is the one at work.
void AcrossMachines::send(PerTower& tower, std::size_t bucket) {
  const arena::Layout& layout = layouts_[buckets_[bucket].arena];
  const auto& roots = plan_.roots[static_cast<std::size_t>(machines_->rank())];
  const auto shards = static_cast<std::size_t>(plan_.shards);
  std::vector<const ShardSum*> sums(shards);
  for (std::size_t shard = 0; shard < shards; ++shard) sums[shard] = sum_of(shard);
  const auto source = [&](std::size_t shard, const arena::Seat& seat, std::int64_t element) {
    return sums[shard] ? source_in(sums[shard]->gradients[seat.entry], seat, element) : nullptr;
  };
  for (int machine = 0; machine < plan_.machines(); ++machine) {
    if (!others(machine)) continue;
    const torch::Tensor& out = traffic_[bucket]->out[static_cast<std::size_t>(machine)];
    const arena::Slice run = plan_.run(buckets_[bucket], machine);
    std::byte* into = writable_bytes_of(out).data();
    for (const int root : roots) {
      tower.sum.partial(shards, own_merges_, source, static_cast<std::size_t>(root), layout, run,
                        into);
      into += static_cast<std::size_t>(run.size()) * c10::elementSize(layout.dtype);
    }
    auto transfer =
        machines_->send(machine, kReduceTag + static_cast<std::uint32_t>(bucket), bytes_of(out));
    const std::scoped_lock lock(mutex_);
    sending_.push_back(std::move(transfer));
  }
}

/// What was not posted before. The towers of this machine deal out the buckets among themselves.
void AcrossMachines::send_rest(int tower, std::span<const ShardSum> mine) {
  begin();
  PerTower& own = by_tower_[static_cast<std::size_t>(local(tower))];
  if (own.sums.data() != mine.data()) own.sums = mine;
  meeting_.meet_inside(tower);
  for (std::size_t bucket = 0; bucket < traffic_.size(); ++bucket)
    if (!traffic_[bucket]->sent &&
        bucket % by_tower_.size() == static_cast<std::size_t>(local(tower)))
      send(own, bucket);
}

/// Afterwards what the others have sent of a bucket is here.
void AcrossMachines::await(int tower, std::size_t bucket) {
  Traffic& traffic = *traffic_[bucket];
  const MachineMeeting::Waiting waiting(meeting_, tower);
  const std::scoped_lock lock(traffic.mutex);
  while (!traffic.arriving.empty()) {
    traffic.arriving.back()->wait();
    traffic.arriving.pop_back();
  }
}

/// Which gradients are there at all: a parameter without one is not the same as one that is zero.
AcrossMachines::Presence AcrossMachines::trade_presence(int tower) {
  const std::size_t parameters =
      std::accumulate(layouts_.begin(), layouts_.end(), std::size_t{0},
                      [](std::size_t sum, const auto& each) { return sum + each.seats.size(); });
  base::Letter mine;
  if (meeting_.leads(tower)) {
    const auto& roots = plan_.roots[static_cast<std::size_t>(machines_->rank())];
    for (std::size_t i = 0; i < roots.size(); ++i) {
      const int end = i + 1 < roots.size()
                          ? roots[i + 1]
                          : plan_.shares[static_cast<std::size_t>(machines_->rank())].end;
      std::vector<char> there(parameters);
      for (int shard = roots[i]; shard < end; ++shard)
        if (const ShardSum* sum = sum_of(static_cast<std::size_t>(shard)))
          for (std::size_t k = 0; k < parameters; ++k)
            if (sum->gradients[k].defined()) there[k] = 1;
      mine.put_list(std::span<const char>(there));
    }
  }
  auto letters = meeting_.trade(tower, std::move(mine));
  Presence presence(static_cast<std::size_t>(plan_.machines()));
  for (std::size_t machine = 0; machine < presence.size(); ++machine)
    for (std::size_t i = 0; i < plan_.roots[machine].size(); ++i)
      presence[machine].push_back(
          letters[static_cast<std::size_t>(plan_.first_tower[machine])].list<char>());
  return presence;
}

std::vector<char> AcrossMachines::reduce(int tower, std::span<const ShardSum> mine, double divisor,
                                         std::span<GradientSlice> slices) {
  send_rest(tower, mine);
  const Presence presence = trade_presence(tower);
  const auto shards = static_cast<std::size_t>(plan_.shards);
  const auto here = static_cast<std::size_t>(machines_->rank());
  std::vector<const ShardSum*> sums(shards);
  std::vector<bool> present(shards);
  for (std::size_t shard = 0; shard < shards; ++shard) {
    sums[shard] = sum_of(shard);
    present[shard] = sums[shard] != nullptr;
  }
  struct Root {
    std::size_t machine, number;
  };
  std::vector<std::optional<Root>> from(shards);  // of another machine
  std::vector<char> reached;
  for (std::size_t machine = 0; machine < presence.size(); ++machine)
    for (std::size_t i = 0; i < presence[machine].size(); ++i) {
      const auto shard = static_cast<std::size_t>(plan_.roots[machine][i]);
      if (machine != here) from[shard] = Root{machine, i};
      present[shard] = true;
      reached.resize(presence[machine][i].size());
      for (std::size_t k = 0; k < reached.size(); ++k)
        if (presence[machine][i][k]) reached[k] = 1;
    }
  const std::vector<Merge> merges = merges_left(present);
  SliceSum& sum = by_tower_[static_cast<std::size_t>(local(tower))].sum;
  for (std::size_t bucket = slices.size(); bucket-- > 0;) {  // as backward completes them
    await(tower, bucket);
    const arena::Slice run = plan_.run(buckets_[bucket], static_cast<int>(here));
    const auto width = static_cast<std::int64_t>(c10::elementSize(slices[bucket].layout->dtype));
    const auto source = [&](std::size_t shard, const arena::Seat& seat,
                            std::int64_t element) -> const std::byte* {
      if (sums[shard]) return source_in(sums[shard]->gradients[seat.entry], seat, element);
      if (!from[shard]) return nullptr;
      const auto& [machine, number] = *from[shard];
      if (!presence[machine][number][seat.entry]) return nullptr;
      return bytes_of(traffic_[bucket]->in[machine]).data() +
             (static_cast<std::int64_t>(number) * run.size() + element - run.begin) * width;
    };
    sum.reduce(shards, merges, source, divisor, slices[bucket]);
  }
  return reached;
}

void AcrossMachines::skip(int tower, std::span<const ShardSum> mine) {
  send_rest(tower, mine);
  for (std::size_t bucket = 0; bucket < traffic_.size(); ++bucket) await(tower, bucket);
}

/// Makes room for what the others have updated. No tower reads parameters any more: all have
/// reduced.
void AcrossMachines::begin_gather() {
  if (std::exchange(gathering_begun_, true)) return;
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket)
    for (int machine = 0; machine < plan_.machines(); ++machine)
      if (others(machine))
        gathering_.push_back(machines_->receive(machine,
                                                kGatherTag + static_cast<std::uint32_t>(bucket),
                                                writable_bytes_of(parameters_of(bucket, machine))));
}

void AcrossMachines::send_updated(std::size_t bucket) {
  const auto own = bytes_of(parameters_of(bucket, machines_->rank()));
  for (int machine = 0; machine < plan_.machines(); ++machine)
    if (others(machine))
      gathering_.push_back(
          machines_->send(machine, kGatherTag + static_cast<std::uint32_t>(bucket), own));
}

void AcrossMachines::updated(int /*tower*/, std::size_t bucket) {
  const std::scoped_lock lock(mutex_);
  if (aborted()) throw Aborted();
  begin_gather();
  if (++updates_[bucket] == by_tower_.size()) send_updated(bucket);
}

void AcrossMachines::gather(int tower) {
  meeting_.meet_inside(tower);
  if (meeting_.leads(tower)) {
    const MachineMeeting::Waiting waiting(meeting_, tower);
    Transfers transfers;
    {
      const std::scoped_lock lock(mutex_);
      if (aborted()) throw Aborted();
      begin_gather();
      for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket)
        if (updates_[bucket] < by_tower_.size()) send_updated(bucket);
      transfers = std::exchange(gathering_, {});
      gathering_begun_ = false;  // outside a step there may be more
      updates_.assign(updates_.size(), 0);
    }
    for (const auto& transfer : transfers) transfer->wait();
  }
  meeting_.meet_inside(tower);
}

/// Nothing writes to the parameters any more, however long the towers take to hear of it.
void AcrossMachines::abort() noexcept {
  Collective::abort();
  const std::scoped_lock lock(mutex_);
  gathering_.clear();
}

}  // namespace lockstep::collective
