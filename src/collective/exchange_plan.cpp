#include "collective/exchange_plan.h"

#include <algorithm>
#include <map>

#include "collective/tree.h"
#include "device/accelerator.h"

namespace lockstep::collective {
namespace {

/// Part of a run; of one that is in another process there is none either.
torch::Tensor narrowed(const torch::Tensor& run, std::int64_t begin, std::int64_t size) {
  return run.defined() ? run.narrow(0, begin, size) : run;
}

/// A subtree's sum over a slice, and the tower that has it.
struct Term {
  int tower = 0;
  torch::Tensor run;
};
using TermsByRoot = std::map<int, Term>;  // by first shard of the subtree

/// Neighbouring towers [begin, end) of one process.
struct Group {
  int begin = 0, end = 0;
  int size() const { return end - begin; }
};

/// Cuts towers into groups of at most `most`; 0: as large as the processes.
std::vector<Group> groups_of(const std::vector<Party>& parties, int most) {
  std::vector<Group> groups;
  for (int tower = 0; tower < static_cast<int>(parties.size()); ++tower) {
    const bool together = !groups.empty() &&
                          parties[static_cast<std::size_t>(tower)].process ==
                              parties[static_cast<std::size_t>(tower) - 1].process &&
                          (most <= 0 || groups.back().size() < most);
    if (together)
      ++groups.back().end;
    else
      groups.push_back({tower, tower + 1});
  }
  return groups;
}

/// Goes through the plan for all towers, and keeps of it what local towers do.
class Planner {
 public:
  Planner(const std::vector<Party>& parties, const ExchangeShape& shape)
      : parties_(parties),
        shape_(shape),
        towers_(static_cast<int>(parties.size())),
        groups_(groups_of(parties, shape.how.group)) {}

  ExchangePlan make() {
    make_roots();
    plan_.sums.resize(parties_.size());
    for (const arena::Bucket& bucket : shape_.buckets) add_bucket(bucket);
    return std::move(plan_);
  }

 private:
  const Party& party(int tower) const { return parties_[static_cast<std::size_t>(tower)]; }
  bool local(int tower) const { return party(tower).process == shape_.process; }

  /// Gradient arenas start as -0, the number that changes nothing when it is added: it stays in the
  /// gaps, and stands for a gradient that is not there.
  torch::Tensor room(int tower, std::int64_t size, torch::Dtype dtype) const {
    if (!local(tower)) return {};
    const torch::Device device =
        shape_.only_sizes ? torch::kMeta : device::torch_device(party(tower).device);
    return torch::full({size}, -0.0, torch::dtype(dtype).device(device));
  }

  void make_roots() {
    plan_.roots.resize(parties_.size());
    for (int tower = 0; tower < towers_; ++tower)
      for (const int shard :
           roots_of(party(tower).first_shard, party(tower).end_shard, shape_.shards)) {
        ExchangePlan::Root root{shard, {}};
        for (const arena::Layout& layout : shape_.layouts)
          root.arenas.push_back(room(tower, layout.size, layout.dtype));
        plan_.roots[static_cast<std::size_t>(tower)].push_back(std::move(root));
      }
  }

  /// The member of `group` that stands for `owner`: the owner itself in its own group.
  int agent(const Group& group, int owner) const {
    const Group& own = *std::ranges::find_if(
        groups_, [&](const Group& each) { return owner >= each.begin && owner < each.end; });
    return group.begin + (owner - own.begin) % group.size();
  }

  void add_bucket(const arena::Bucket& bucket) {
    BucketPlan plan;
    plan.packs.resize(static_cast<std::size_t>(std::max(shape_.how.packs, 1)));
    for (int owner = 0; owner < towers_; ++owner) {
      const arena::Slice slice = arena::slice_of(bucket, owner, towers_);
      plan_.sums[static_cast<std::size_t>(owner)].push_back(add_slice(plan, bucket, slice, owner));
      if (slice.size() > 0) add_gather(bucket, slice, owner);
    }
    plan_.buckets.push_back(std::move(plan));
  }

  /// Plans the sum of a slice for its owner; where it arrives.
  torch::Tensor add_slice(BucketPlan& plan, const arena::Bucket& bucket, arena::Slice slice,
                          int owner) {
    const torch::Dtype dtype = shape_.layouts[bucket.arena].dtype;
    if (slice.size() == 0 || shape_.shards == 0) return room(owner, slice.size(), dtype);
    TermsByRoot all;
    for (const Group& group : groups_)
      for (auto& [shard, term] : terms_of(plan, bucket, slice, agent(group, owner), group)) {
        if (term.tower != owner) {
          const torch::Tensor arrived = room(owner, slice.size(), dtype);
          add_moves(plan, &PackPlan::to_owners, slice.size(),
                    {term.tower, owner, term.run, arrived});
          term = {owner, arrived};
        }
        all.emplace(shard, term);
      }
    std::vector<bool> present(static_cast<std::size_t>(shape_.shards));
    for (const auto& [shard, term] : all) present[static_cast<std::size_t>(shard)] = true;
    for (const Merge& merge : merges_left(present))
      add_addition(plan, &PackPlan::across, slice.size(), all, merge);
    const torch::Tensor result = all.at(0).run;
    add_sums(plan, bucket, slice, owner, result);
    return result;
  }

  /// The terms that a group brings to a slice, at its agent, merged as far as the group can.
  TermsByRoot terms_of(BucketPlan& plan, const arena::Bucket& bucket, arena::Slice slice, int agent,
                       const Group& group) {
    const torch::Dtype dtype = shape_.layouts[bucket.arena].dtype;
    TermsByRoot terms;
    for (int member = group.begin; member < group.end; ++member)
      for (const ExchangePlan::Root& root : plan_.roots[static_cast<std::size_t>(member)]) {
        torch::Tensor run = narrowed(root.arenas[bucket.arena], slice.begin, slice.size());
        if (member != agent) {
          const torch::Tensor arrived = room(agent, slice.size(), dtype);
          add_moves(plan, &PackPlan::to_agents, slice.size(), {member, agent, run, arrived});
          run = arrived;
        }
        terms.emplace(root.shard, Term{agent, run});
      }
    const int first = party(group.begin).first_shard;
    for (int shard = first; shard < party(group.end - 1).end_shard; ++shard)
      for (const Merge& merge : merges_after(shard, first, shape_.shards))
        if (terms.contains(merge.from))
          add_addition(plan, &PackPlan::inside, slice.size(), terms, merge);
    return terms;
  }

  /// Cuts a slice of `size` into packs and calls add(pack, cut), where cut(run) is the pack's part.
  template <class Add>
  void for_each_pack(BucketPlan& plan, std::int64_t size, const Add& add) const {
    const auto packs = static_cast<std::int64_t>(plan.packs.size());
    for (std::int64_t k = 0; k < packs; ++k) {
      const std::int64_t begin = size * k / packs, end = size * (k + 1) / packs;
      if (begin == end) continue;
      add(plan.packs[static_cast<std::size_t>(k)],
          [=](const torch::Tensor& run) { return narrowed(run, begin, end - begin); });
    }
  }

  void add_moves(BucketPlan& plan, std::vector<Move> PackPlan::*list, std::int64_t size,
                 const Move& move) const {
    if (!local(move.from) && !local(move.to)) return;
    for_each_pack(plan, size, [&](PackPlan& pack, const auto& cut) {
      (pack.*list).push_back({move.from, move.to, cut(move.source), cut(move.target)});
    });
  }

  void add_addition(BucketPlan& plan, std::vector<Addition> PackPlan::*list, std::int64_t size,
                    TermsByRoot& terms, const Merge& merge) const {
    const Term from = terms.at(merge.from);
    terms.erase(merge.from);
    const auto [into, moved] = terms.emplace(merge.into, from);
    if (moved || !local(from.tower)) return;
    for_each_pack(plan, size, [&](PackPlan& pack, const auto& cut) {
      (pack.*list).push_back({from.tower, cut(into->second.run), cut(from.run)});
    });
  }

  void add_sums(BucketPlan& plan, const arena::Bucket& bucket, arena::Slice slice, int owner,
                const torch::Tensor& target) const {
    if (shape_.reduction != Reduction::fast) return;
    for_each_pack(plan, slice.size(), [&](PackPlan& pack, const auto& cut) {
      Sum sum{owner, {}, cut(target)};
      for (const auto& roots : plan_.roots)
        sum.sources.push_back(
            cut(narrowed(roots.front().arenas[bucket.arena], slice.begin, slice.size())));
      pack.sums.push_back(std::move(sum));
    });
  }

  /// An owner's parameters go to the agents of the other groups, and from agents to members.
  void add_gather(const arena::Bucket& bucket, arena::Slice slice, int owner) {
    const auto run = [&](int tower) {
      return local(tower)
                 ? narrowed(party(tower).parameters[bucket.arena], slice.begin, slice.size())
                 : torch::Tensor();
    };
    const auto add = [&](std::vector<Move>& list, int from, int to) {
      if (from != to && (local(from) || local(to))) list.push_back({from, to, run(from), run(to)});
    };
    for (const Group& group : groups_) {
      const int relay = agent(group, owner);
      add(plan_.gather_across, owner, relay);
      for (int member = group.begin; member < group.end; ++member)
        add(plan_.gather_inside, relay, member);
    }
  }

  const std::vector<Party>& parties_;
  const ExchangeShape& shape_;
  const int towers_;
  const std::vector<Group> groups_;
  ExchangePlan plan_;
};

}  // namespace

ExchangePlan make_plan(const std::vector<Party>& parties, const ExchangeShape& shape) {
  const torch::NoGradGuard no_grad;
  return Planner(parties, shape).make();
}

}  // namespace lockstep::collective
