#include "strategy/neighbours.h"

#include <algorithm>

#include "base/letter.h"
#include "collective/machine_meeting.h"
#include "collective/tensor_letter.h"

namespace lockstep::strategy {
namespace {

constexpr std::int64_t kAlignment = 8;  // of slices inside a part: that of the widest element

}  // namespace

Neighbours::Neighbours(std::shared_ptr<Machines> machines, const ParameterMap& map)
    : machines_(std::move(machines)), map_(map) {}

/// Calls work(rank, flat, bucket, begin, bytes) for all that the towers of a machine keep, where it
/// is in the machine's part. Returns the part's length.
template <class Work>
std::int64_t Neighbours::for_each_slice(const Copy& copy, int machine, const Work& work) const {
  const std::vector<int>& towers = copy.roster.towers;
  int rank = 0;
  for (int before = 0; before < machine; ++before) rank += towers[static_cast<std::size_t>(before)];
  std::int64_t begin = 0;
  for (const int end = rank + towers[static_cast<std::size_t>(machine)]; rank < end; ++rank)
    for (std::size_t flat = 0; flat < copy.flats; ++flat)
      for (std::size_t i = 0; i < map_.buckets.size(); ++i) {
        const arena::Bucket& bucket = map_.buckets[i];
        const auto width =
            static_cast<std::int64_t>(c10::elementSize(map_.layouts[bucket.arena].dtype));
        const std::int64_t bytes =
            arena::slice_of(bucket, rank, copy.roster.total()).size() * width;
        work(rank, flat, i, begin, bytes);
        begin += (bytes + kAlignment - 1) / kAlignment * kAlignment;
      }
  return begin;
}

/// For a machine's part: `old`, if that is as long.
torch::Tensor Neighbours::room_for(const Copy& copy, int machine, const torch::Tensor& old) const {
  const std::int64_t bytes = for_each_slice(copy, machine, [](auto&&...) {});
  return old.defined() && old.numel() == bytes ? old : torch::empty({bytes}, torch::kByte);
}

void Neighbours::pack(Copy& copy, Towers& towers) const {
  const torch::NoGradGuard no_grad;
  const torch::Tensor& part = copy.parts[static_cast<std::size_t>(copy.roster.machine)];
  std::vector<std::vector<Flats>> kept;  // by tower
  for (const Tower& tower : towers) kept.push_back(tower.kept());
  for_each_slice(
      copy, copy.roster.machine,
      [&](int rank, std::size_t flat, std::size_t bucket, std::int64_t begin, std::int64_t bytes) {
        const torch::Tensor& slice =
            kept[static_cast<std::size_t>(rank - copy.roster.first)][flat][bucket];
        part.narrow(0, begin, bytes).view(slice.scalar_type()).copy_(slice);
      });
}

void Neighbours::unpack(const Copy& copy, int machine, const torch::Tensor& part,
                        const std::vector<Flats>& whole) const {
  const torch::NoGradGuard no_grad;
  for_each_slice(
      copy, machine,
      [&](int rank, std::size_t flat, std::size_t bucket, std::int64_t begin, std::int64_t bytes) {
        const auto& [arena, all] = map_.buckets[bucket];
        const arena::Slice range = arena::slice_of(map_.buckets[bucket], rank, copy.roster.total());
        const torch::Tensor into = whole[flat][arena].narrow(0, range.begin, range.size());
        into.copy_(part.narrow(0, begin, bytes).view(into.scalar_type()));
      });
}

void Neighbours::copy(State state, Towers& towers) {
  Copy& next = copies_[1 - counts_];
  next.state = std::move(state);
  next.roster = towers.roster();
  next.flats = towers.front().kept().size();
  const int machines = machines_->size(), own = machines_->rank();
  const int before = (own + machines - 1) % machines, after = (own + 1) % machines;
  std::vector<torch::Tensor> old = std::exchange(next.parts, {});
  old.resize(static_cast<std::size_t>(machines));
  next.parts.resize(static_cast<std::size_t>(machines));
  for (const int machine : {own, before}) {
    const auto i = static_cast<std::size_t>(machine);
    next.parts[i] = room_for(next, machine, old[i]);
  }
  pack(next, towers);
  if (machines == 1) return;
  const auto arriving = machines_->receive(
      before, collective::kNeighbourTag,
      collective::writable_bytes_of(next.parts[static_cast<std::size_t>(before)]));
  machines_
      ->send(after, collective::kNeighbourTag,
             collective::bytes_of(next.parts[static_cast<std::size_t>(own)]))
      ->wait();
  arriving->wait();
}

/// By machine of the copy: who has its part, by rank of now. Empty: it cannot be put together.
std::vector<int> Neighbours::holders(const Copy& copy, bool able) const {
  base::Letter mine;
  mine.put(able && !copy.parts.empty());
  mine.put(copy.state.steps);
  mine.put(copy.roster.machine);
  const std::size_t machines = copy.roster.towers.size();
  std::vector<int> now(machines, -1);
  bool possible = true;
  for (int rank = 0; const Bytes& bytes : machines_->all_gather(mine.bytes())) {
    base::LetterReader letter(bytes);
    possible = letter.get<bool>() && possible;
    possible = letter.get<std::int64_t>() == copy.state.steps && possible;
    if (const auto machine = static_cast<std::size_t>(letter.get<int>()); machine < machines)
      now[machine] = rank;
    ++rank;
  }
  std::vector<int> who;
  for (std::size_t machine = 0; machine < machines; ++machine)
    who.push_back(now[machine] >= 0 ? now[machine] : now[(machine + 1) % machines]);
  possible = possible && std::ranges::find(who, -1) == who.end();
  return possible ? who : std::vector<int>{};
}

std::optional<Neighbours::Rescued> Neighbours::put_together(bool able) const {
  const Copy& copy = copies_[counts_];
  const std::vector<int> who = holders(copy, able);
  if (who.empty()) return std::nullopt;
  std::vector<torch::Tensor> parts;
  std::vector<std::unique_ptr<Machines::Transfer>> transfers;
  for (std::size_t machine = 0; machine < who.size(); ++machine) {
    const bool here = who[machine] == machines_->rank();
    const torch::Tensor& part =
        parts.emplace_back(here ? copy.parts[machine] : room_for(copy, static_cast<int>(machine)));
    if (!here)
      transfers.push_back(machines_->receive(who[machine], collective::kNeighbourTag,
                                             collective::writable_bytes_of(part)));
    for (int other = 0; here && other < machines_->size(); ++other)
      if (other != machines_->rank())
        transfers.push_back(
            machines_->send(other, collective::kNeighbourTag, collective::bytes_of(part)));
  }
  for (const auto& transfer : transfers) transfer->wait();
  Rescued rescued{copy.state, {}};
  for (std::size_t flat = 0; flat < copy.flats; ++flat)
    rescued.kept.push_back(allocate(map_.layouts, torch::kCPU));
  for (std::size_t machine = 0; machine < parts.size(); ++machine)
    unpack(copy, static_cast<int>(machine), parts[machine], rescued.kept);
  return rescued;
}

}  // namespace lockstep::strategy
