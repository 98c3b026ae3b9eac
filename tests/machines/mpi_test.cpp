// The contract of Machines by MPI. mpi_test.py has mpirun start three processes of this program;
// all run the same tests, each as one machine.

#include <cstdlib>

#include "ranks.h"

namespace mpi_test {

using namespace ranks;
using std::chrono_literals::operator""ms;

std::shared_ptr<Machines> machine;  // joined by main(): MPI is there once in a process

TEST(Mpi, TransfersGoBothWaysAtOnceFromSeveralThreads) {
  std::vector<std::jthread> threads;
  for (const std::size_t size : {0UL, 1UL, 4095UL, 1048577UL, 20000000UL})
    threads.emplace_back([size] {
      const auto tag = static_cast<std::uint32_t>(size) / 10;
      std::vector<std::unique_ptr<Machines::Transfer>> transfers;
      const Bytes out = pattern(size, tag + static_cast<unsigned>(machine->rank()));
      std::vector<Bytes> in(3, Bytes(size));
      for (int other = 0; other < 3; ++other) {
        if (other == machine->rank()) continue;
        transfers.push_back(machine->send(other, tag, out));
        transfers.push_back(machine->receive(other, tag, in[static_cast<std::size_t>(other)]));
      }
      for (const auto& transfer : transfers) transfer->wait();
      for (int other = 0; other < 3; ++other)
        if (other != machine->rank()) {
          EXPECT_EQ(in[static_cast<std::size_t>(other)],
                    pattern(size, tag + static_cast<unsigned>(other)));
        }
    });
}

TEST(Mpi, TransfersWithTheSameTagArriveInOrder) {
  const int next = (machine->rank() + 1) % 3, before = (machine->rank() + 2) % 3;
  std::vector<Bytes> out, in;
  std::vector<std::unique_ptr<Machines::Transfer>> transfers;
  for (unsigned i = 0; i < 50; ++i) {
    out.push_back(pattern(100 + 3000 * i, i));
    in.emplace_back(out.back().size());
  }
  for (std::size_t i = 0; i < out.size(); ++i) transfers.push_back(machine->send(next, 7, out[i]));
  for (Bytes& bytes : in) transfers.push_back(machine->receive(before, 7, bytes));
  for (const auto& transfer : transfers) transfer->wait();
  EXPECT_EQ(in, out);
}

TEST(Mpi, AnAbortFreesEveryWaitAndTheSameMachinesMakeANewGroup) {
  for (int round = 0; round < 3; ++round) {
    const std::int64_t generation = machine->generation();
    Bytes given_up(3000000), large(3000000);
    // One that nobody sends, and one that nobody receives.
    if (machine->rank() == 1) machine->receive(0, 3, given_up).reset();
    if (machine->rank() == 2) machine->send(1, 4, large).reset();
    const auto begin = Clock::now();
    std::jthread aborter([] {
      std::this_thread::sleep_for(100ms);
      if (machine->rank() == 2) machine->abort("its disk is full");
    });
    const Trouble trouble = trouble_of([&] {
      if (machine->rank() == 0) machine->all_gather({});
      if (machine->rank() == 1) machine->receive(0, 1, large)->wait();
      machine->send(0, 2, large)->wait();
    });
    EXPECT_EQ(trouble.failed, machine->name(2));
    EXPECT_EQ(trouble.why, "its disk is full");
    EXPECT_LT(since(begin).count(), 1.1);
    trouble_of([&] { machine->send((machine->rank() + 1) % 3, 1, large)->wait(); });
    aborter.join();
    machine->regroup();
    EXPECT_EQ(machine->generation(), generation + 1);
    // What was given up is not mixed up with what comes with the same tags.
    const Bytes kept = given_up, out = pattern(3000000, static_cast<unsigned>(round));
    Bytes in(out.size());
    if (machine->rank() == 0) machine->send(1, 3, out)->wait();
    if (machine->rank() == 2) machine->send(1, 4, out)->wait();
    if (machine->rank() == 1) {
      machine->receive(0, 3, in)->wait();
      EXPECT_EQ(in, out);
      in.assign(in.size(), {});
      machine->receive(2, 4, in)->wait();
      EXPECT_EQ(in, out);
    }
    EXPECT_EQ(given_up, kept);
  }
}

}  // namespace mpi_test

int main(int count, char** arguments) {
  testing::InitGoogleTest(&count, arguments);
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (!rank || count != 2) {
    std::fputs("mpi_tests PORT, started by mpirun -np 3: see mpi_test.py\n", stderr);
    return 2;
  }
  mpi_test::machine = lockstep::join({.machine = std::atoi(rank),
                                      .machines = 3,
                                      .first = std::string("127.0.0.1:") + arguments[1],
                                      .transport = lockstep::MachineTransport::mpi});
  const int result = RUN_ALL_TESTS();
  mpi_test::machine.reset();
  return result;
}
