// Machines that fail, leave or are lost: of both kinds.

#include <gtest/gtest.h>
#include <lockstep/machines.h>

#include "kinds.h"

namespace trouble_test {

using namespace ranks;
using std::chrono_literals::operator""ms;
using Names = std::vector<std::string>;

class TroubleOf : public OfEachKind {};
INSTANTIATE_TEST_SUITE_P(Machines, TroubleOf, testing::ValuesIn(kinds()), kind_name);

/// Everybody waits for what does not come: rank 0 in an all-gather, the others in transfers.
void wait_in_vain(Machines& me) {
  Bytes bytes(3000000);
  if (me.rank() == 0) me.all_gather(bytes);
  if (me.rank() == 1) me.receive(0, 1, bytes)->wait();
  me.send(1, 2, bytes)->wait();
}

void expect_a_working_group(const Group& group, const Names& names, std::int64_t generation) {
  on_all(group, [&](Machines& me) {
    EXPECT_FALSE(me.trouble());
    EXPECT_EQ(me.generation(), generation);
    ASSERT_EQ(me.size(), static_cast<int>(names.size()));
    for (int rank = 0; rank < me.size(); ++rank)
      EXPECT_EQ(me.name(rank), names[static_cast<std::size_t>(rank)]);
    EXPECT_EQ(texts_of(me.all_gather(bytes_of(me.name(me.rank())))), names);
    const int next = (me.rank() + 1) % me.size(), before = (me.rank() + me.size() - 1) % me.size();
    if (next == me.rank()) return;
    const Bytes out = pattern(100000, static_cast<unsigned>(me.rank()));
    Bytes in(out.size());
    const auto send = me.send(next, 9, out), receive = me.receive(before, 9, in);
    send->wait();
    receive->wait();
    EXPECT_EQ(in, pattern(100000, static_cast<unsigned>(before)));
  });
}

TEST_P(TroubleOf, AnAbortFreesEveryWaitOnAllMachinesWithinASecond) {
  const Group group = make(4);
  std::jthread aborter([&] {
    std::this_thread::sleep_for(100ms);
    group[3]->abort("its disk is full");
  });
  const auto begin = Clock::now();
  on_all(group, [](Machines& me) {
    const Trouble trouble = trouble_of([&] { wait_in_vain(me); });
    EXPECT_EQ(trouble.failed, me.name(3));
    EXPECT_EQ(trouble.why, "its disk is full");
    EXPECT_TRUE(trouble.lost.empty());
    EXPECT_EQ(me.trouble()->failed, me.name(3));
    Bytes bytes(8);
    trouble_of([&] { me.all_gather(bytes); });
    trouble_of([&] { me.send((me.rank() + 1) % 4, 1, bytes)->wait(); });
  });
  EXPECT_LT(since(begin).count(), 1.1);
}

TEST_P(TroubleOf, AfterAnAbortTheSameMachinesMakeANewGroup) {
  const Group group = make(3);
  for (std::int64_t generation = 1; generation < 4; ++generation) {
    on_all(group, [](Machines& me) {
      if (me.rank() == 2) me.abort("once more");
      trouble_of([&] { wait_in_vain(me); });
      me.regroup();
    });
    expect_a_working_group(group, {"machine-0", "machine-1", "machine-2"}, generation);
  }
}

TEST_P(TroubleOf, AMachineThatVanishesIsNamedAndTheOthersGoOnWithRanksAnew) {
  Group group = make(4);
  std::jthread power_cut([&] {
    std::this_thread::sleep_for(100ms);
    vanish(group, 1);
  });
  const auto begin = Clock::now();
  const Group others{group[0], group[2], group[3]};
  on_all(others, [](Machines& me) {
    const Trouble trouble = trouble_of([&] {
      Bytes bytes(3000000);
      if (me.rank() == 0) me.all_gather(bytes);
      if (me.rank() == 2) me.receive(1, 1, bytes)->wait();
      me.send(1, 1, bytes)->wait();
    });
    EXPECT_EQ(trouble.lost, Names{"machine-1"});
    EXPECT_EQ(trouble.failed, "");
  });
  EXPECT_LT(since(begin).count(), 2);
  on_all(others, [](Machines& me) { me.regroup(); });
  expect_a_working_group(others, {"machine-0", "machine-2", "machine-3"}, 1);
}

TEST_P(TroubleOf, MachinesThatVanishWhileOthersRegroupAreLeftOut) {
  Group group = make(4);
  std::jthread power_cut([&] {
    std::this_thread::sleep_for(100ms);
    vanish(group, 1);
    std::this_thread::sleep_for(100ms);
    vanish(group, 3);
  });
  const Group others{group[0], group[2]};
  on_all(others, [](Machines& me) {
    me.abort("tired");
    me.regroup();
  });
  EXPECT_EQ(others[0]->size(), 2);
  expect_a_working_group(others, {"machine-0", "machine-2"}, others[0]->generation());
}

TEST_P(TroubleOf, WithoutTheFirstNothingGoesOn) {
  Group group = make(3);
  std::jthread power_cut([&] {
    std::this_thread::sleep_for(100ms);
    vanish(group, 0);
  });
  on_all({group[1], group[2]}, [](Machines& me) {
    EXPECT_EQ(trouble_of([&] { me.all_gather({}); }).lost, Names{"machine-0"});
    EXPECT_EQ(trouble_of([&] { me.regroup(); }).lost, Names{"machine-0"});
    EXPECT_EQ(trouble_of([&] { me.all_gather({}); }).lost, Names{"machine-0"});
  });
}

TEST_P(TroubleOf, AGoodByeIsNoLoss) {
  Group group = make(3);
  group[2].reset();
  std::this_thread::sleep_for(100ms);
  EXPECT_FALSE(group[0]->trouble());
  EXPECT_FALSE(group[1]->trouble());
  // The two that are left still reach each other.
  on_all(group, [](Machines& me) {
    Bytes bytes = pattern(1000, 1);
    if (me.rank() == 0) me.send(1, 4, bytes)->wait();
    if (me.rank() == 1) me.receive(0, 4, bytes)->wait();
  });
  group[0].reset();
  std::this_thread::sleep_for(100ms);
  EXPECT_FALSE(group[1]->trouble());
}

TEST_P(TroubleOf, WhoWaitsForAMachineThatSaidGoodByeIsTold) {
  Group group = make(3);
  std::jthread leaver([&] {
    std::this_thread::sleep_for(50ms);
    group[2].reset();
  });
  on_all({group[0], group[1]}, [](Machines& me) {
    const Trouble trouble = trouble_of([&] { me.all_gather({}); });
    EXPECT_EQ(trouble.lost, Names{"machine-2"});
    EXPECT_NE(trouble.why.find("work ended"), std::string::npos) << trouble.why;
    me.regroup();
  });
  group.resize(2);
  expect_a_working_group(group, {"machine-0", "machine-1"}, 1);
}

TEST_P(TroubleOf, TransfersOfAGroupThatIsNoMoreThrow) {
  const Group group = make(2);
  on_all(group, [](Machines& me) {
    Bytes bytes(100);
    const auto old = me.receive(1 - me.rank(), 1, bytes);
    me.all_gather({});
    if (me.rank() == 0) me.abort("so it goes");
    me.regroup();
    EXPECT_THROW(old->wait(), MachinesError);
  });
  expect_a_working_group(group, {"machine-0", "machine-1"}, 1);
}

TEST_P(TroubleOf, AMachineAloneRegroups) {
  const Group group = make(1);
  group[0]->abort("a cause");
  EXPECT_EQ(trouble_of([&] { group[0]->all_gather({}); }).why, "a cause");
  group[0]->regroup();
  expect_a_working_group(group, {group[0]->name(0)}, 1);
}

}  // namespace trouble_test
