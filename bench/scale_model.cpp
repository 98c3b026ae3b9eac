#include "scale_model.h"

#include <algorithm>

namespace bench {
namespace {

using lockstep::collective::Addition;
using lockstep::collective::ExchangePlan;
using lockstep::collective::Move;

/// The communication streams of all towers, as times at which they are free.
class Streams {
 public:
  Streams(const Cluster& cluster, std::size_t towers) : cluster_(cluster), times_(towers) {}

  double& of(int tower) { return times_[static_cast<std::size_t>(tower)]; }
  void wait_for(const Streams& others) {
    for (std::size_t i = 0; i < times_.size(); ++i)
      times_[i] = std::max(times_[i], others.times_[i]);
  }
  void wait_until(double time) {
    for (double& each : times_) each = std::max(each, time);
  }
  double last() const { return *std::ranges::max_element(times_); }

  void move(const std::vector<Move>& moves, std::map<std::pair<int, int>, double>& outgoing) {
    if (moves.empty()) return;
    cluster_.transfers == Transfers::together ? move_together(moves)
                                              : move_one_by_one(moves, outgoing);
  }

  void add(const std::vector<Addition>& additions) {
    for (const Addition& addition : additions)  // two are read, one is written
      of(addition.tower) += 3 * bytes_of(addition.from) / cluster_.memory_bytes_per_second;
  }

 private:
  static double bytes_of(const torch::Tensor& run) { return static_cast<double>(run.nbytes()); }
  const Link& link(const Move& move) const {
    return move.from / cluster_.group == move.to / cluster_.group ? cluster_.inside
                                                                  : cluster_.across;
  }

  /// As PeerCopy does: a device sends on a stream for each receiver, and receives on one.
  void move_one_by_one(const std::vector<Move>& moves,
                       std::map<std::pair<int, int>, double>& outgoing) {
    for (const Move& move : moves) {
      double& out = outgoing[{move.from, move.to}];
      out = std::max(out, of(move.from));
    }
    for (const Move& move : moves) {
      double& out = outgoing[{move.from, move.to}];
      const Link& by = link(move);
      out = of(move.to) =
          std::max(out, of(move.to)) + by.latency + bytes_of(move.source) / by.bytes_per_second;
    }
    for (const Move& move : moves) {
      double& time = of(move.from);
      time = std::max(time, outgoing[{move.from, move.to}]);
    }
  }

  /// A call begins on a device when it has begun on all that it talks to. Links are full duplex,
  /// and those inside a machine are others than those between them.
  void move_together(const std::vector<Move>& moves) {
    struct Load {
      double in = 0, out = 0;
      double seconds(const Link& by) const {
        return in + out > 0 ? by.latency + std::max(in, out) / by.bytes_per_second : 0;
      }
    };
    std::vector<Load> inside(times_.size()), across(times_.size());
    std::vector<double> begin = times_;
    for (const Move& move : moves) {
      const auto from = static_cast<std::size_t>(move.from), to = static_cast<std::size_t>(move.to);
      auto& loads = &link(move) == &cluster_.inside ? inside : across;
      loads[from].out += bytes_of(move.source);
      loads[to].in += bytes_of(move.source);
      begin[from] = std::max(begin[from], times_[to]);
      begin[to] = std::max(begin[to], times_[from]);
    }
    for (std::size_t i = 0; i < times_.size(); ++i)
      times_[i] = begin[i] +
                  std::max(inside[i].seconds(cluster_.inside), across[i].seconds(cluster_.across));
  }

  const Cluster& cluster_;
  std::vector<double> times_;
};

}  // namespace

StepTime step_time(const ExchangePlan& plan, const Cluster& cluster, const DeviceTimes& device) {
  Streams inside(cluster, plan.sums.size()), across(cluster, plan.sums.size());
  std::map<std::pair<int, int>, double> outgoing;
  std::vector<std::size_t> order(plan.buckets.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = order.size() - 1 - i;
  // Between machines buckets go from the last to the first; inside of one, as they are complete.
  if (static_cast<int>(plan.sums.size()) <= cluster.group)
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return device.ready[i]; });
  double ready = 0;
  for (const std::size_t bucket : order) {
    ready = std::max(ready, device.ready[bucket]);
    inside.wait_until(ready);
    for (const auto& pack : plan.buckets[bucket].packs) {
      inside.move(pack.to_agents, outgoing);
      inside.add(pack.inside);
      if (pack.to_owners.empty()) {
        inside.add(pack.across);
        continue;
      }
      across.wait_for(inside);
      across.move(pack.to_owners, outgoing);
      across.add(pack.across);
    }
  }
  StepTime result;
  result.sums = std::max(inside.last(), across.last());
  const double updated = std::max(device.computed, result.sums) + device.reduced + device.updated;
  inside.wait_until(updated);
  inside.move(plan.gather_across, outgoing);
  inside.move(plan.gather_inside, outgoing);
  result.total = inside.last();
  result.gather = result.total - updated;
  return result;
}

ExchangePlan plan_of(const std::vector<lockstep::arena::Layout>& layouts,
                     const std::vector<lockstep::arena::Bucket>& buckets, int towers, int group,
                     int packs) {
  std::vector<torch::Tensor> parameters;
  for (const auto& layout : layouts)
    parameters.push_back(lockstep::arena::allocate(layout, torch::kMeta));
  std::vector<lockstep::collective::Party> parties;
  for (int tower = 0; tower < towers; ++tower)
    parties.push_back({{}, tower, tower + 1, parameters});
  return lockstep::collective::make_plan(
      parties, {.shards = towers,
                .layouts = layouts,
                .buckets = buckets,
                .how = {.group = towers > group ? group : 0, .packs = packs},
                .only_sizes = true});
}

}  // namespace bench
