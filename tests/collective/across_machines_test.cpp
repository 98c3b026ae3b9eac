// What goes between machines, and when.

#include "collective/across_machines.h"

#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "collective/spread_work.h"
#include "machines/thread_machines.h"

namespace across_machines_test {

using namespace lockstep;
using namespace lockstep::collective;

/// Notes the tags of what a machine has begun to send.
class Watched : public Machines {
 public:
  explicit Watched(std::shared_ptr<Machines> inner) : inner_(std::move(inner)) {}
  std::set<std::uint32_t> sent;

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const std::string& name(int rank) const override { return inner_->name(rank); }
  std::int64_t generation() const override { return inner_->generation(); }
  std::vector<Bytes> all_gather(std::span<const std::byte> mine) override {
    return inner_->all_gather(mine);
  }
  std::unique_ptr<Transfer> send(int to, std::uint32_t tag,
                                 std::span<const std::byte> bytes) override {
    sent.insert(tag);
    return inner_->send(to, tag, bytes);
  }
  std::unique_ptr<Transfer> receive(int from, std::uint32_t tag,
                                    std::span<std::byte> bytes) override {
    return inner_->receive(from, tag, bytes);
  }
  void abort(const std::string& why) noexcept override { inner_->abort(why); }
  std::optional<Trouble> trouble() const override { return inner_->trouble(); }
  void regroup() override { inner_->regroup(); }

 private:
  const std::shared_ptr<Machines> inner_;
};

constexpr std::int64_t kSize = 4 * arena::kBlock;

/// A machine with one tower, one shard and two buckets. Each machine owns half of a bucket.
struct Machine {
  explicit Machine(std::shared_ptr<Machines> inner)
      : machines(std::make_shared<Watched>(std::move(inner))),
        layouts(arena::layouts({{"weight", torch::empty({kSize})}})),
        buckets(arena::buckets(layouts, kSize / 2 * 4)),
        parameters(torch::full({kSize}, static_cast<float>(machines->rank()))),
        collective(machines,
                   std::make_unique<MachineMeeting>(machines, std::vector{1, 1}, DeviceKind::cpu),
                   MachinePlan({1, 1}, {{0, 1}, {1, 2}}, 2), layouts, buckets, {parameters}) {}

  void reduce() {
    const std::vector<ShardSum> sums{{machines->rank(), {torch::ones({kSize})}}};
    std::vector<GradientSlice> slices;
    for (const arena::Bucket& bucket : buckets) {
      const arena::Slice range = arena::slice_of(bucket, machines->rank(), 2);
      slices.push_back(
          {&layouts.front(), range, torch::empty({range.size()}), std::vector<double>(1)});
    }
    collective.reduce(machines->rank(), sums, 2, slices);
    for (const GradientSlice& slice : slices) EXPECT_TRUE((slice.gradient == 1).all().item<bool>());
  }

  std::shared_ptr<Watched> machines;
  std::vector<arena::Layout> layouts;
  std::vector<arena::Bucket> buckets;
  torch::Tensor parameters;
  AcrossMachines collective;
};

/// Runs `program` on two machines.
template <class Program>
void on_two(const Program& program) {
  const auto both = machines::threads(2);
  std::vector<std::jthread> threads;
  for (const auto& each : both)
    threads.emplace_back([&] {
      Machine machine(each);
      program(machine);
    });
}

TEST(AcrossMachines, SendABucketThatIsUpdatedBeforeTheNextOneIs) {
  on_two([](Machine& machine) {
    machine.reduce();
    machine.collective.updated(machine.machines->rank(), 0);
    EXPECT_TRUE(machine.machines->sent.contains(kGatherTag));
    EXPECT_FALSE(machine.machines->sent.contains(kGatherTag + 1));
    machine.collective.gather(machine.machines->rank());  // the rest
    for (const arena::Bucket& bucket : machine.buckets)
      for (int owner = 0; owner < 2; ++owner) {
        const arena::Slice run = arena::slice_of(bucket, owner, 2);
        EXPECT_TRUE(
            (machine.parameters.narrow(0, run.begin, run.size()) == owner).all().item<bool>());
      }
  });
}

TEST(AcrossMachines, NothingArrivesInTheParametersOnceAStepIsAborted) {
  std::atomic<bool> aborted = false;
  on_two([&](Machine& machine) {
    machine.reduce();
    if (machine.machines->rank() == 0) {
      // Makes room for what the other has updated, and fails; the other goes on, not knowing it.
      machine.collective.updated(0, 1);
      machine.collective.abort();
      EXPECT_THROW(machine.collective.updated(0, 0), Aborted);
      aborted = true;
      aborted.notify_all();
      machine.machines->all_gather({});
      EXPECT_TRUE((machine.parameters == 0).all().item<bool>());
    } else {
      aborted.wait(false);
      machine.collective.updated(1, 0);
      machine.machines->all_gather({});
      machine.collective.abort();
    }
  });
}

TEST(AcrossMachines, SpreadWorkMakesOnEachMachineWhatOneMakesOfAllLists) {
  const std::vector<arena::Layout> layouts{{.dtype = torch::kFloat32, .size = 7},
                                           {.dtype = torch::kInt64, .size = 1},
                                           {.dtype = torch::kFloat64, .size = 64}};
  const auto list = [&](int number) {
    TensorList flats;
    for (const arena::Layout& layout : layouts)
      flats.push_back((torch::arange(layout.size) * 3 + number).to(layout.dtype));
    return flats;
  };
  std::atomic<std::int64_t> seen = 0;
  const auto work = [&](const std::vector<TensorList>& lists) {  // the order counts
    TensorList result;
    for (std::size_t i = 0; i < lists.front().size(); ++i) {
      seen += lists.front()[i].numel();
      result.push_back(lists.front()[i].clone());
      for (std::size_t k = 1; k < lists.size(); ++k) result.back().mul_(2).sub_(lists[k][i]);
    }
    return result;
  };
  const TensorList expected = work({list(0), list(1), list(2)});
  const std::int64_t all = seen.exchange(0);
  const std::vector<std::vector<TensorList>> mine{{list(0), list(1)}, {}, {list(2)}};
  const auto machines = machines::threads(3);
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < machines.size(); ++rank)
    threads.emplace_back([&, rank] {
      const TensorList found = spread_work(*machines[rank], mine[rank], layouts, work);
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i)
        EXPECT_TRUE(torch::equal(found[i], expected[i])) << rank;
      EXPECT_TRUE(spread_work(*machines[rank], {}, layouts, work).empty());
    });
  threads.clear();
  EXPECT_EQ(seen, all);  // each element once
}

}  // namespace across_machines_test
