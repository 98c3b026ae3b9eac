// Towers of several processes: each process has a plan and an exchange of its own. The processes
// are played by threads that share nothing but a mailbox.

#include <gtest/gtest.h>
#include <lockstep/error.h>

#include <random>

#include "exchange_case.h"
#include "mail.h"

namespace processes_test {

using namespace exchange_case;

int process_count(const Setting& setting) { return setting.processes.back() + 1; }

/// One exchange a process.
Reduced reduce_apart(const Case& batch, const Setting& setting) {
  const std::vector<Party> parties = parties_of(batch, setting);
  mail::Mailbox box;
  std::vector<std::unique_ptr<Exchange>> exchanges;
  for (int process = 0; process < process_count(setting); ++process)
    exchanges.push_back(std::make_unique<Exchange>(
        seen_from(process, parties), shape_of(batch, setting, process),
        std::make_unique<mail::MailMeeting>(box, process, setting.processes),
        std::make_unique<mail::MailTransport>(box)));
  const Reduced found = reduce(batch, setting, parties, [&](int tower) -> Collective& {
    return *exchanges[static_cast<std::size_t>(setting.process_of(tower))];
  });
  EXPECT_TRUE(box.empty()) << "letters that nobody took: " << setting;
  return found;
}

std::vector<int> layout_of(const std::vector<int>& towers_a_process) {
  std::vector<int> processes;
  for (std::size_t process = 0; process < towers_a_process.size(); ++process)
    processes.insert(processes.end(), static_cast<std::size_t>(towers_a_process[process]),
                     static_cast<int>(process));
  return processes;
}

class Processes : public testing::Test {
 protected:
  void SetUp() override { sim::configure({.devices = kDevices}); }
};

TEST_F(Processes, GiveTheBitsOfOneProcess) {
  for (const std::vector<int>& towers_a_process :
       {std::vector{2, 2}, {1, 2, 1}, {3, 1}, {2, 1, 3}, {1, 1}})
    for (const int shards : {4, 12}) {
      const std::vector<int> processes = layout_of(towers_a_process);
      const int towers = static_cast<int>(processes.size());
      const Case batch(torch::kFloat32, {7, 3 * kBlock + 3, 1, 0, 1025}, shards, true);
      const Setting apart{
          towers, even_cuts(shards, towers), {.bucket_bytes = 8 * kBlock}, processes};
      const Setting together{towers, apart.cuts, apart.how};
      const Reduced found = reduce_apart(batch, apart), one = reduce(batch, together);
      expect_tree_sum(batch, apart, found);
      EXPECT_TRUE(same_bits(found.flat, one.flat)) << apart;
      EXPECT_EQ(found.squares, one.squares) << apart;
      EXPECT_EQ(found.sum, one.sum) << apart;
      EXPECT_EQ(found.reached, one.reached) << apart;
    }
}

/// Towers, processes, groups and cuts by chance.
Setting random_setting(std::mt19937& random, int shards) {
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  const int towers = draw(2, kDevices);
  Setting setting{
      towers,
      {0},
      {.bucket_bytes = 4 * kBlock * draw(0, 4), .group = draw(0, 3), .packs = draw(1, 3)},
      {0}};
  for (int tower = 1; tower < towers; ++tower) {
    setting.cuts.push_back(draw(setting.cuts.back(), shards));
    setting.processes.push_back(setting.processes.back() + draw(0, 1));
  }
  setting.cuts.push_back(shards);
  return setting;
}

TEST_F(Processes, GiveTheTreeSumForRandomSettings) {
  std::mt19937 random(5);
  for (int round = 0; round < 20; ++round) {
    const int shards = 1 + round % 9;
    const Case batch(round % 2 ? torch::kFloat32 : torch::kBFloat16, {20, 2 * kBlock + round, 1025},
                     shards, round % 3 == 0);
    const Setting setting = random_setting(random, shards);
    expect_tree_sum(batch, setting, reduce_apart(batch, setting));
  }
}

/// A move without its memory.
struct Hop {
  int from = 0, to = 0;
  std::int64_t elements = 0;
  friend bool operator==(const Hop&, const Hop&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Hop& hop) {
    return out << hop.from << ">" << hop.to << " " << hop.elements;
  }
};

/// All moves of a plan, in the order in which they are made.
std::vector<Move> moves_of(const ExchangePlan& plan) {
  std::vector<Move> moves;
  const auto add = [&](const std::vector<Move>& list) {
    moves.insert(moves.end(), list.begin(), list.end());
  };
  for (const BucketPlan& bucket : plan.buckets)
    for (const PackPlan& pack : bucket.packs) {
      add(pack.to_agents);
      add(pack.to_owners);
    }
  add(plan.gather_across);
  add(plan.gather_inside);
  return moves;
}

/// Those moves for which keep(from, to).
template <class Keep>
std::vector<Hop> hops(const ExchangePlan& plan, const Keep& keep) {
  std::vector<Hop> result;
  for (const Move& move : moves_of(plan))
    if (keep(move.from, move.to))
      result.push_back(
          {move.from, move.to, (move.source.defined() ? move.source : move.target).numel()});
  return result;
}

/// Tower and elements of all additions, in order, of towers for which keep(tower).
template <class Keep>
std::vector<std::pair<int, std::int64_t>> additions(const ExchangePlan& plan, const Keep& keep) {
  std::vector<std::pair<int, std::int64_t>> result;
  for (const BucketPlan& bucket : plan.buckets)
    for (const PackPlan& pack : bucket.packs)
      for (const auto* list : {&pack.inside, &pack.across})
        for (const Addition& addition : *list)
          if (keep(addition.tower)) {
            EXPECT_EQ(addition.into.numel(), addition.from.numel());
            result.emplace_back(addition.tower, addition.into.numel());
          }
  return result;
}

void expect_memory_of(const torch::Tensor& tensor, const Party& party, int process) {
  ASSERT_EQ(tensor.defined(), party.process == process);
  if (!tensor.defined()) return;
  EXPECT_EQ(tensor.device(), device::torch_device(party.device));
}

/// A plan has memory of its process's towers alone, and all of theirs.
void expect_only_own_memory(const ExchangePlan& plan, const std::vector<Party>& parties,
                            int process) {
  const auto party = [&](int tower) { return parties[static_cast<std::size_t>(tower)]; };
  for (const Move& move : moves_of(plan)) {
    EXPECT_TRUE(move.source.defined() || move.target.defined());
    expect_memory_of(move.source, party(move.from), process);
    expect_memory_of(move.target, party(move.to), process);
  }
  for (std::size_t tower = 0; tower < parties.size(); ++tower) {
    for (const torch::Tensor& sum : plan.sums[tower])
      expect_memory_of(sum, parties[tower], process);
    for (const ExchangePlan::Root& root : plan.roots[tower])
      for (const torch::Tensor& arena : root.arenas)
        expect_memory_of(arena, parties[tower], process);
  }
  for (const BucketPlan& bucket : plan.buckets)
    for (const PackPlan& pack : bucket.packs)
      for (const Sum& sum : pack.sums) {
        expect_memory_of(sum.target, party(sum.to), process);
        for (std::size_t tower = 0; tower < parties.size(); ++tower)
          expect_memory_of(sum.sources[tower], parties[tower], process);
      }
  EXPECT_EQ(additions(plan, [&](int tower) { return party(tower).process != process; }).size(), 0);
}

std::vector<ExchangePlan> plans_of(const Case& batch, const Setting& setting) {
  std::vector<ExchangePlan> plans;
  for (int process = 0; process < process_count(setting); ++process)
    plans.push_back(make_plan(seen_from(process, parties_of(batch, setting)),
                              shape_of(batch, setting, process)));
  return plans;
}

TEST_F(Processes, PlanTheirOwnMemoryAndTheSameMovesOnBothSides) {
  std::mt19937 random(6);
  for (int round = 0; round < 40; ++round) {
    const int shards = 1 + round % 9;
    const Case batch(torch::kFloat32, {20, 2 * kBlock + round, 1025}, shards, false);
    const Setting setting = random_setting(random, shards);
    const std::vector<ExchangePlan> plans = plans_of(batch, setting);
    for (int a = 0; a < process_count(setting); ++a) {
      expect_only_own_memory(plans[static_cast<std::size_t>(a)], parties_of(batch, setting), a);
      for (int b = 0; b < a; ++b) {
        const auto between = [&](int from, int to) {
          const std::pair ends(setting.process_of(from), setting.process_of(to));
          return ends == std::pair(a, b) || ends == std::pair(b, a);
        };
        EXPECT_EQ(hops(plans[static_cast<std::size_t>(a)], between),
                  hops(plans[static_cast<std::size_t>(b)], between))
            << setting;
      }
    }
  }
}

TEST_F(Processes, TogetherPlanWhatOneProcessDoesInGroupsOfTheSameSize) {
  for (const int size : {1, 2, 4})
    for (const int shards : {1, 5, 8}) {
      const Case batch(torch::kFloat32, {20, 5 * kBlock + 3, 1025}, shards, false);
      Setting setting{8, even_cuts(shards, 8), {.bucket_bytes = 8 * kBlock, .packs = 2}};
      for (int tower = 0; tower < 8; ++tower) setting.processes.push_back(tower / size);
      Setting together{8, setting.cuts, setting.how};
      together.how.group = size;
      const ExchangePlan one = make_plan(parties_of(batch, together), shape_of(batch, together));
      const std::vector<ExchangePlan> plans = plans_of(batch, setting);
      for (int process = 0; process < process_count(setting); ++process) {
        const ExchangePlan& plan = plans[static_cast<std::size_t>(process)];
        const auto local = [&](int tower) { return setting.process_of(tower) == process; };
        const auto touches = [&](int from, int to) { return local(from) || local(to); };
        EXPECT_EQ(hops(plan, touches), hops(one, touches)) << setting;
        EXPECT_EQ(hops(plan, [](int, int) { return true; }).size(), hops(one, touches).size());
        EXPECT_EQ(additions(plan, local), additions(one, local)) << setting;
      }
    }
}

TEST_F(Processes, PlanTheSameSumsForATransportThatCanSum) {
  const Case batch(torch::kFloat32, {20, 3 * kBlock}, 4, false);
  const Setting setting{4, even_cuts(4, 4), {}, layout_of({1, 3})};
  for (int process = 0; process < 2; ++process) {
    ExchangeShape shape = shape_of(batch, setting, process);
    shape.reduction = Reduction::fast;
    const ExchangePlan plan = make_plan(seen_from(process, parties_of(batch, setting)), shape);
    expect_only_own_memory(plan, parties_of(batch, setting), process);
    std::vector<int> owners;
    for (const Sum& sum : plan.buckets[0].packs[0].sums) {
      owners.push_back(sum.to);
      EXPECT_TRUE(crosses(sum));
    }
    EXPECT_EQ(owners, (std::vector<int>{0, 1, 2, 3}));
  }
}

TEST_F(Processes, CopiesBetweenDevicesRefuseToCrossThem) {
  const Device device{DeviceKind::sim, 0};
  const torch::Tensor here = torch::zeros({4}, device::torch_device(device));
  const std::vector<c10::Stream> streams(2, device::new_stream(device));
  PeerCopy copies;
  for (const Move& move : {Move{0, 1, here, {}}, Move{1, 0, {}, here}}) try {
      copies.move({&move, 1}, streams);
      FAIL();
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find("copies between devices"), std::string::npos);
    }
}

}  // namespace processes_test
