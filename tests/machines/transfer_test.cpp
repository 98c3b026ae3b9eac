// What machines give each other: of both kinds.

#include <gtest/gtest.h>
#include <lockstep/machines.h>

#include "kinds.h"

namespace transfer_test {

using namespace ranks;

class Transfers : public OfEachKind {};
INSTANTIATE_TEST_SUITE_P(Machines, Transfers, testing::ValuesIn(kinds()), kind_name);

TEST_P(Transfers, AllGatherGivesEveryonesBytesByRankWhateverTheirLengths) {
  for (const int count : {1, 2, 3, 5}) {
    const Group group = make(count);
    on_all(group, [&](Machines& me) {
      EXPECT_EQ(me.size(), count);
      EXPECT_EQ(me.generation(), 0);
      for (unsigned round = 0; round < 20; ++round) {
        const auto size_of = [&](int rank) {
          return static_cast<std::size_t>(rank) * (round % 3) * 100 + (round == 7 ? 3000000U : 0U);
        };
        const auto seed = [&](int rank) { return round * 10 + static_cast<unsigned>(rank); };
        const auto all = me.all_gather(pattern(size_of(me.rank()), seed(me.rank())));
        ASSERT_EQ(all.size(), static_cast<std::size_t>(count));
        for (int rank = 0; rank < count; ++rank)
          ASSERT_EQ(all[static_cast<std::size_t>(rank)], pattern(size_of(rank), seed(rank)));
      }
    });
  }
}

TEST_P(Transfers, GoBothWaysAtOnceFromSeveralThreads) {
  const Group group = make(3);
  on_all(group, [](Machines& me) {
    std::vector<std::jthread> threads;
    for (const std::size_t size : {0UL, 1UL, 4095UL, 1048577UL, 20000000UL})
      threads.emplace_back([&me, size] {
        const auto tag = static_cast<std::uint32_t>(size);
        std::vector<std::unique_ptr<Machines::Transfer>> transfers;
        const Bytes out = pattern(size, tag + static_cast<unsigned>(me.rank()));
        std::vector<Bytes> in(3, Bytes(size));
        for (int other = 0; other < 3; ++other) {
          if (other == me.rank()) continue;
          transfers.push_back(me.send(other, tag, out));
          transfers.push_back(me.receive(other, tag, in[static_cast<std::size_t>(other)]));
        }
        for (const auto& transfer : transfers) transfer->wait();
        for (int other = 0; other < 3; ++other) {
          if (other == me.rank()) continue;
          EXPECT_EQ(in[static_cast<std::size_t>(other)],
                    pattern(size, tag + static_cast<unsigned>(other)));
        }
      });
  });
}

TEST_P(Transfers, WithTheSameTagArriveInOrderAndOthersDoNotMind) {
  constexpr unsigned kMessages = 50;
  const Group group = make(2);
  on_all(group, [](Machines& me) {
    std::vector<Bytes> data;
    std::vector<std::unique_ptr<Machines::Transfer>> transfers;
    for (unsigned i = 0; i < kMessages; ++i)
      data.push_back(me.rank() == 0 ? pattern(100 + i, i) : Bytes(100 + i));
    // The receiver takes the odd tags first; inside a tag the order is the sender's.
    for (unsigned pass = 0; pass < 2; ++pass)
      for (unsigned i = 0; i < kMessages; ++i) {
        const std::uint32_t tag = i % 2;
        if (me.rank() == 0 && pass == 0) transfers.push_back(me.send(1, tag, data[i]));
        if (me.rank() == 1 && tag != pass) transfers.push_back(me.receive(0, tag, data[i]));
      }
    for (const auto& transfer : transfers) transfer->wait();
    for (unsigned i = 0; i < kMessages; ++i) EXPECT_EQ(data[i], pattern(100 + i, i)) << i;
  });
}

TEST_P(Transfers, NeedAnotherMachineAndATagBelowTwoToThe31) {
  const Group group = make(2);
  Bytes bytes(4);
  EXPECT_THROW(group[0]->send(0, 1, bytes), std::logic_error);
  EXPECT_THROW(group[0]->send(2, 1, bytes), std::logic_error);
  EXPECT_THROW(group[0]->receive(-1, 1, bytes), std::logic_error);
  EXPECT_THROW(group[0]->receive(1, 1U << 31U, bytes), std::logic_error);
}

TEST_P(Transfers, ThatAreGivenUpTouchNothing) {
  const Group group = make(2);
  Bytes given_up(64), taken(64);
  group[1]->receive(0, 3, given_up).reset();
  const Bytes kept = given_up;
  on_all(group, [&](Machines& me) {
    if (me.rank() == 0) {
      me.abort("enough");
    }
    me.regroup();
    const Bytes out = pattern(64, 5);
    if (me.rank() == 0)
      me.send(1, 3, out)->wait();
    else
      me.receive(0, 3, taken)->wait();
  });
  EXPECT_EQ(given_up, kept);
  EXPECT_EQ(taken, pattern(64, 5));
}

}  // namespace transfer_test
