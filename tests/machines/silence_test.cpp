// Machines that fall silent, that are slow, that come back; and whose memory is written.

#include <gtest/gtest.h>
#include <lockstep/machines.h>

#include <atomic>

#include "network.h"

namespace silence_test {

using namespace ranks;
using std::chrono_literals::operator""ms;
using Names = std::vector<std::string>;

void soon(MachinesOptions& options) { options.silence = Seconds(1); }

TEST(Silence, OfAMachineIsALossWithinTheLimit) {
  const Group group = network(3, soon);
  const auto begin = Clock::now();
  network_machine(*group[1]).freeze();
  on_all({group[0], group[2]}, [](Machines& me) {
    Bytes bytes(8);
    const Trouble trouble = trouble_of([&] {
      if (me.rank() == 0) me.all_gather(bytes);
      me.receive(1, 1, bytes)->wait();
    });
    EXPECT_EQ(trouble.lost, Names{"machine-1"});
    EXPECT_NE(trouble.why.find("no sign of life for 1 s"), std::string::npos) << trouble.why;
    me.regroup();
    EXPECT_EQ(me.size(), 2);
    EXPECT_EQ(texts_of(me.all_gather(bytes_of(me.name(me.rank())))),
              (Names{"machine-0", "machine-2"}));
  });
  EXPECT_GT(since(begin).count(), 0.9);
  EXPECT_LT(since(begin).count(), 3);
}

TEST(Silence, OfTheFirstIsALossForAllOthers) {
  const Group group = network(3, soon);
  network_machine(*group[0]).freeze();
  const auto begin = Clock::now();
  on_all({group[1], group[2]}, [](Machines& me) {
    EXPECT_EQ(trouble_of([&] { me.all_gather({}); }).lost, Names{"machine-0"});
    EXPECT_EQ(trouble_of([&] { me.regroup(); }).lost, Names{"machine-0"});
  });
  EXPECT_LT(since(begin).count(), 3);
  network_machine(*group[0]).vanish();  // its good-bye would wait for itself
}

TEST(Silence, OfAMachineThatOnlyComputesIsNone) {
  const Group group = network(2, soon);
  on_all(group, [](Machines& me) {
    Bytes bytes(1000000);
    if (me.rank() == 1) std::this_thread::sleep_for(2200ms);
    me.all_gather({});
    if (me.rank() == 0) me.send(1, 1, bytes)->wait();
    if (me.rank() == 1) me.receive(0, 1, bytes)->wait();
    EXPECT_FALSE(me.trouble());
  });
}

TEST(Silence, IsNotSeenInALargeAllGather) {
  const Group group = network(3, soon);
  on_all(group, [](Machines& me) {
    const auto all = me.all_gather(Bytes(50000000, static_cast<std::byte>(me.rank())));
    for (unsigned rank = 0; rank < 3; ++rank) {
      ASSERT_EQ(all[rank].size(), 50000000U);
      ASSERT_EQ(all[rank].front(), static_cast<std::byte>(rank));
      ASSERT_EQ(std::memcmp(all[rank].data(), all[rank].data() + 1, all[rank].size() - 1), 0);
    }
    EXPECT_FALSE(me.trouble());
  });
}

TEST(Silence, AMachineThatComesBackIsTakenInByTheNextGroup) {
  std::string first;
  Group group = network(3, [&](MachinesOptions& options) {
    if (options.machine == 0) first = options.first;
  });
  network_machine(*group[1]).vanish();
  group[1].reset();
  on_all(group, [](Machines& me) {
    EXPECT_EQ(trouble_of([&] { me.all_gather({}); }).lost, Names{"machine-1"});
    me.regroup();
  });
  EXPECT_TRUE(group[0]->waiting().empty());
  std::jthread back([&] {
    MachinesOptions options = options_of(1, 3, first.substr(first.find(':') + 1));
    options.start = Seconds(0.3);  // the wait for the others' regroup() does not count
    group[1] = join(options);
  });
  const auto begin = Clock::now();
  while (group[0]->waiting().empty() && since(begin).count() < 5) std::this_thread::sleep_for(20ms);
  EXPECT_EQ(group[0]->waiting(), Names{"machine-1"});
  std::this_thread::sleep_for(500ms);
  on_all({group[0], group[2]}, [](Machines& me) {
    EXPECT_FALSE(me.trouble()) << "whoever waits disturbs nobody";
    me.all_gather({});
    me.regroup();
  });
  back.join();
  on_all(group, [](Machines& me) {
    EXPECT_EQ(me.generation(), 2);
    EXPECT_EQ(texts_of(me.all_gather(bytes_of(me.name(me.rank())))),
              (Names{"machine-0", "machine-1", "machine-2"}));
  });
  EXPECT_TRUE(group[0]->waiting().empty());
}

/// Aborts when the first byte has come: then the rest of a large message is on its way.
void receive_half(Machines& me, Bytes& in) {
  std::jthread aborter([&] {
    while (std::atomic_ref(in.front()).load() == std::byte{0}) std::this_thread::yield();
    me.abort("in the middle");
  });
  EXPECT_THROW(me.receive(0, 1, in)->wait(), MachinesError);
}

TEST(Silence, AfterAnAbortNothingIsWrittenToMemoryThatAReceiveWasGiven) {
  const Group group = network(2);
  const Bytes out(50000000, std::byte{1});
  int halves = 0;
  for (int attempt = 0; attempt < 3; ++attempt)
    on_all(group, [&](Machines& me) {
      if (me.rank() == 0) {
        const auto send = me.send(1, 1, out);
        EXPECT_THROW(send->wait(), MachinesError);
        EXPECT_THROW(me.all_gather({}), MachinesError);
      } else {
        Bytes in(out.size());
        receive_half(me, in);
        const std::byte last = in.back();
        halves += last == std::byte{0} ? 1 : 0;
        const Bytes as_it_was = in;
        std::this_thread::sleep_for(200ms);
        EXPECT_TRUE(in.back() == last && std::memcmp(in.data(), as_it_was.data(), in.size()) == 0)
            << "written after wait() had thrown";
      }
      me.regroup();
    });
  EXPECT_GT(halves, 0) << "no message was cut: this test has tried nothing";
}

TEST(Silence, TransfersThatAreUnderWayEndBeforeTheirBytes) {
  // The receive is given up while the bytes come; its memory is unmapped right after.
  const Group group = network(2);
  on_all(group, [&](Machines& me) {
    Bytes bytes(50000000);
    auto transfer = me.rank() == 0 ? me.send(1, 1, bytes) : me.receive(0, 1, bytes);
    me.all_gather({});
    std::this_thread::sleep_for(5ms);
    transfer.reset();
    bytes = {};
    if (me.rank() == 1) me.abort("given up");
    me.regroup();
    EXPECT_EQ(me.all_gather({}).size(), 2U);
  });
}

}  // namespace silence_test
