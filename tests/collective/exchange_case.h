#pragma once

// Exchanges of a batch's gradients on simulated devices, and what must come of them.

#include <gtest/gtest.h>
#include <lockstep/sim.h>

#include <functional>
#include <memory>
#include <ostream>
#include <vector>

#include "collective/exchange.h"
#include "collective/peer_copy.h"
#include "collective/thread_meeting.h"
#include "device/accelerator.h"
#include "tree_case.h"

namespace exchange_case {

using namespace tree_case;
using arena::kBlock;

inline constexpr int kDevices = 8;

inline std::unique_ptr<Meeting> meeting_of(int towers) {
  return std::make_unique<ThreadMeeting>(towers, DeviceKind::sim);
}

struct Setting {
  int towers = 1;
  std::vector<int> cuts;  ///< tower t computes shards cuts[t] to cuts[t + 1]
  Exchanging how;
  std::vector<int> processes = {};  ///< by tower; empty: all are in one
  int process_of(int tower) const {
    return processes.empty() ? 0 : processes[static_cast<std::size_t>(tower)];
  }
  friend std::ostream& operator<<(std::ostream& out, const Setting& s) {
    out << s.towers << " towers, groups of " << s.how.group << ", " << s.how.packs << " packs, "
        << s.how.bucket_bytes << " bytes a bucket, cuts";
    for (const int cut : s.cuts) out << " " << cut;
    out << ", processes";
    for (const int process : s.processes) out << " " << process;
    return out;
  }
};

inline std::vector<int> even_cuts(int shards, int towers) {
  std::vector<int> cuts;
  for (int tower = 0; tower <= towers; ++tower) cuts.push_back(shards * tower / towers);
  return cuts;
}

inline ExchangeShape shape_of(const Case& batch, const Setting& setting, int process = 0) {
  return {.shards = static_cast<int>(batch.shards.size()),
          .layouts = {batch.layout},
          .buckets = arena::buckets({batch.layout}, setting.how.bucket_bytes),
          .how = setting.how,
          .process = process};
}

inline std::vector<Party> parties_of(const Case& batch, const Setting& setting) {
  std::vector<Party> parties;
  for (int tower = 0; tower < setting.towers; ++tower) {
    const Device device{DeviceKind::sim, tower};
    parties.push_back({device,
                       setting.cuts[static_cast<std::size_t>(tower)],
                       setting.cuts[static_cast<std::size_t>(tower) + 1],
                       {arena::allocate(batch.layout, device::torch_device(device))},
                       setting.process_of(tower)});
  }
  return parties;
}

/// What one process knows of all parties: memory only of its own.
inline std::vector<Party> seen_from(int process, std::vector<Party> parties) {
  for (Party& party : parties)
    if (party.process != process) party.parameters.clear();
  return parties;
}

/// A tower's sums on its device, merged as far as it can.
inline std::vector<ShardSum> device_sums(const Case& batch, const Setting& setting, int tower,
                                         const torch::Device& device) {
  const int shards = static_cast<int>(batch.shards.size());
  const int first = setting.cuts[static_cast<std::size_t>(tower)];
  const int end = setting.cuts[static_cast<std::size_t>(tower) + 1];
  std::vector<Gradients> sums(batch.shards.size());
  for (int shard = first; shard < end; ++shard) {
    sums[static_cast<std::size_t>(shard)] = batch.shards[static_cast<std::size_t>(shard)];
    for (const auto& [into, from] : merges_after(shard, first, shards))
      merge(sums[static_cast<std::size_t>(into)], sums[static_cast<std::size_t>(from)]);
  }
  std::vector<ShardSum> result;
  for (int shard = first; shard < end; ++shard) {
    Gradients& sum = sums[static_cast<std::size_t>(shard)];
    if (sum.empty()) continue;
    for (torch::Tensor& gradient : sum)
      if (gradient.defined()) gradient = gradient.to(device);
    result.push_back({shard, std::move(sum)});
  }
  return result;
}

struct Reduced {
  torch::Tensor flat;                     ///< all towers' slices, side by side
  std::vector<double> squares;            ///< of all blocks
  double sum = 0;                         ///< of the squares, as the last tower has it
  std::vector<torch::Tensor> parameters;  ///< by tower, after gather
  torch::Tensor collected;                ///< parameters, from every tower its slices
  std::vector<char> reached;              ///< by parameter, as the last tower has it
};

/// One step of every tower, each with the collective of its process.
inline Reduced reduce(const Case& batch, const Setting& setting, const std::vector<Party>& parties,
                      const std::function<Collective&(int tower)>& collective_of) {
  const ExchangeShape shape = shape_of(batch, setting);
  Reduced result;
  result.flat = arena::allocate(batch.layout, torch::kCPU);
  result.collected = arena::allocate(batch.layout, torch::kCPU);
  std::vector<std::vector<GradientSlice>> slices(parties.size());
  std::vector<std::vector<SumTerms>> squares(parties.size());
  std::vector<std::vector<ArenaPart>> parts(parties.size());
  run_towers(setting.towers, [&](int tower) {
    const auto at = static_cast<std::size_t>(tower);
    Collective& collective = collective_of(tower);
    const Party& party = parties[at];
    const torch::Device place = device::torch_device(party.device);
    const c10::DeviceGuard guard(place);
    auto& own = slices[at];
    for (const arena::Bucket& bucket : shape.buckets) {
      const auto range = arena::slice_of(bucket, tower, setting.towers);
      const auto blocks = static_cast<std::size_t>((range.size() + kBlock - 1) / kBlock);
      own.push_back({&shape.layouts[0], range,
                     torch::full({range.size()}, 7, torch::dtype(batch.layout.dtype).device(place)),
                     std::vector<double>(blocks, -1)});
    }
    const auto mine = device_sums(batch, setting, tower, place);
    // Some buckets early, from the last to the first, as backward does; the rest with reduce.
    for (std::size_t bucket = shape.buckets.size(); bucket-- > 0;)
      if ((static_cast<int>(bucket) + tower) % 3 != 0) collective.post(tower, bucket, mine);
    const auto reached = collective.reduce(tower, mine, batch.divisor, own);
    for (const GradientSlice& slice : own) {
      const torch::Tensor part =
          party.parameters[0].narrow(0, slice.range.begin, slice.range.size());
      torch::Tensor(part).copy_(slice.gradient);
      parts[at].push_back({0, slice.range, part});
      squares[at].emplace_back(slice.squares);
    }
    collective.gather(tower);
    const double sum = collective.sum(tower, squares[at]);
    collective.collect(tower, parts[at], {&result.collected, tower == 0 ? 1U : 0U});
    if (tower != setting.towers - 1) return;
    result.reached = reached;
    result.sum = sum;
  });
  for (std::size_t bucket = 0; bucket < shape.buckets.size(); ++bucket)
    for (const auto& own : slices) {
      const GradientSlice& slice = own[bucket];
      result.flat.narrow(0, slice.range.begin, slice.range.size()).copy_(slice.gradient);
      result.squares.insert(result.squares.end(), slice.squares.begin(), slice.squares.end());
    }
  for (const Party& party : parties) result.parameters.push_back(party.parameters[0].cpu());
  return result;
}

inline Reduced reduce(const Case& batch, const Setting& setting) {
  const std::vector<Party> parties = parties_of(batch, setting);
  Exchange collective(parties, shape_of(batch, setting), meeting_of(setting.towers),
                      std::make_unique<PeerCopy>());
  return reduce(batch, setting, parties, [&](int) -> Collective& { return collective; });
}

/// Bit for bit, gaps between seats left out.
inline bool same_seats(const arena::Layout& layout, const torch::Tensor& a,
                       const torch::Tensor& b) {
  for (const arena::Seat& seat : layout.seats)
    if (!same_bits(arena::view(a, seat).clone(), arena::view(b, seat).clone())) return false;
  return true;
}

/// `found` is the sum over the tree of shards, and what one tower alone makes of it.
inline void expect_tree_sum(const Case& batch, const Setting& setting, const Reduced& found) {
  const torch::Tensor expected = batch.expected();
  EXPECT_TRUE(same_seats(batch.layout, found.flat, expected)) << setting;
  EXPECT_TRUE(same_seats(batch.layout, found.collected, expected)) << "collected: " << setting;
  for (const torch::Tensor& parameters : found.parameters)
    EXPECT_TRUE(same_seats(batch.layout, parameters, expected)) << "gathered: " << setting;
  const Reduced one =
      reduce(batch, {1, {0, static_cast<int>(batch.shards.size())}, {.bucket_bytes = 0}});
  EXPECT_EQ(found.squares, one.squares) << setting;
  EXPECT_EQ(found.sum, one.sum) << setting;
  EXPECT_EQ(found.reached, one.reached) << setting;
}

}  // namespace exchange_case
