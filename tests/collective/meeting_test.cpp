// What crosses towers on the host: sums are in shared_memory_test.cpp.

#include <gtest/gtest.h>
#include <lockstep/sim.h>

#include "collective/exchange.h"
#include "collective/peer_copy.h"
#include "collective/shared_memory.h"
#include "collective/thread_meeting.h"
#include "device/accelerator.h"
#include "mail.h"
#include "tree_case.h"

namespace meeting_test {

using namespace tree_case;
using arena::kBlock;

TEST(Meeting, AnyIsWhatOneTowerHasSetAndListsMayBeShort) {
  const std::vector<std::vector<char>> flags = {{0, 1, 0, 0}, {}, {0, 0, 1}};
  ThreadMeeting meeting(3, DeviceKind::cpu);
  std::vector<std::vector<char>> found(3);
  run_towers(3, [&](int tower) {
    const auto at = static_cast<std::size_t>(tower);
    for (int round = 0; round < 100; ++round) found[at] = meeting.any(tower, flags[at]);
  });
  for (const auto& each : found) EXPECT_EQ(each, (std::vector<char>{0, 1, 1, 0}));
}

/// Tower t brings t lists; each gets back its own, plus the number of all. By every meeting that
/// `of` makes for a tower.
void expect_answers(int towers, const std::function<Meeting&(int)>& of) {
  std::vector<std::vector<TensorList>> found(static_cast<std::size_t>(towers));
  run_towers(towers, [&](int tower) {
    std::vector<TensorList> mine;
    for (int i = 0; i < tower; ++i) mine.push_back({torch::full({2}, 10 * tower + i)});
    for (int round = 0; round < 20; ++round)
      found[static_cast<std::size_t>(tower)] =
          of(tower).through_first(tower, mine, [](std::vector<TensorList> all) {
            const auto count = static_cast<std::int64_t>(all.size());
            for (TensorList& list : all) list = {list.at(0) + 100 * count, list.at(0)};
            return all;
          });
  });
  const int all = towers * (towers - 1) / 2;
  for (int tower = 0; tower < towers; ++tower) {
    const auto& lists = found[static_cast<std::size_t>(tower)];
    ASSERT_EQ(static_cast<int>(lists.size()), tower);
    for (int i = 0; i < tower; ++i) {
      const TensorList& list = lists[static_cast<std::size_t>(i)];
      EXPECT_EQ(list.at(0)[1].item<int>(), 10 * tower + i + 100 * all);
      EXPECT_EQ(list.at(1)[0].item<int>(), 10 * tower + i);
    }
  }
}

TEST(Meeting, TheFirstTowerAnswersEveryListOfAll) {
  ThreadMeeting meeting(4, DeviceKind::cpu);
  expect_answers(4, [&](int) -> Meeting& { return meeting; });
}

TEST(Meeting, TheFirstTowerAnswersOtherProcesses) {
  mail::Mailbox box;
  const std::vector<int> process_of = {0, 0, 1, 2, 2};
  std::vector<std::unique_ptr<mail::MailMeeting>> meetings;
  for (int process = 0; process < 3; ++process)
    meetings.push_back(std::make_unique<mail::MailMeeting>(box, process, process_of));
  expect_answers(5, [&](int tower) -> Meeting& {
    return *meetings[static_cast<std::size_t>(process_of[static_cast<std::size_t>(tower)])];
  });
  EXPECT_TRUE(box.empty());
}

struct Saved {
  std::vector<arena::Layout> layouts;
  std::vector<arena::Bucket> buckets;
  std::vector<torch::Tensor> values;  ///< flat, by arena
};

/// Two arenas, the first in several buckets.
Saved saved() {
  Saved result;
  std::vector<arena::Entry> entries;
  for (const auto dtype : {torch::kFloat32, torch::kFloat64})
    for (const std::int64_t numel : {std::int64_t{7}, 3 * kBlock + 3, std::int64_t{1025}})
      entries.push_back({"p", torch::zeros({numel}, dtype)});
  result.layouts = arena::layouts(entries);
  result.buckets = arena::buckets(result.layouts, 4 * kBlock);
  for (const arena::Layout& layout : result.layouts)
    result.values.push_back(torch::arange(layout.size, layout.dtype));
  return result;
}

/// Every tower brings its slices; what the first tower has then.
std::vector<torch::Tensor> collected(Collective& collective, const Saved& state,
                                     const std::vector<Device>& devices) {
  const auto towers = static_cast<int>(devices.size());
  std::vector<std::vector<torch::Tensor>> whole(devices.size());
  for (auto& own : whole)
    for (const arena::Layout& layout : state.layouts)
      own.push_back(arena::allocate(layout, torch::kCPU));
  run_towers(towers, [&](int tower) {
    const auto at = static_cast<std::size_t>(tower);
    const torch::Device place = device::torch_device(devices[at]);
    std::vector<ArenaPart> mine;
    for (const arena::Bucket& bucket : state.buckets) {
      const arena::Slice range = arena::slice_of(bucket, tower, towers);
      mine.push_back({bucket.arena, range,
                      state.values[bucket.arena].narrow(0, range.begin, range.size()).to(place)});
    }
    collective.collect(tower, mine, whole[at]);
  });
  for (std::size_t tower = 1; tower < whole.size(); ++tower)
    for (const torch::Tensor& arena : whole[tower])
      EXPECT_EQ(arena.count_nonzero().item().toInt(), 0);
  return whole.front();
}

TEST(Collective, CollectPutsTheSlicesOfAllTowersTogetherAtTheFirst) {
  const Saved state = saved();
  sim::configure({.devices = 5});
  for (const int towers : {1, 2, 3, 5})
    for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::sim}) {
      std::vector<Device> devices;
      std::vector<Party> parties;
      for (int tower = 0; tower < towers; ++tower) {
        devices.push_back({kind, tower});
        parties.push_back({devices.back(), tower, tower + 1, {}});
        for (const arena::Layout& layout : state.layouts)
          parties.back().parameters.push_back(
              arena::allocate(layout, device::torch_device(devices.back())));
      }
      auto meeting = std::make_unique<ThreadMeeting>(towers, kind);
      std::unique_ptr<Collective> collective;
      if (kind == DeviceKind::cpu)
        collective = std::make_unique<SharedMemory>(std::move(meeting), towers);
      else
        collective = std::make_unique<Exchange>(
            parties, ExchangeShape{towers, state.layouts, state.buckets, {}}, std::move(meeting),
            std::make_unique<PeerCopy>());
      const auto found = collected(*collective, state, devices);
      for (std::size_t arena = 0; arena < found.size(); ++arena)
        EXPECT_TRUE(same_bits(found[arena], state.values[arena])) << towers << " towers";
    }
}

TEST(Collective, AbortFreesThoseWhoCollect) {
  SharedMemory collective(std::make_unique<ThreadMeeting>(3, DeviceKind::cpu), 3);
  std::atomic<int> freed = 0;
  run_towers(3, [&](int tower) {
    if (tower == 0) return collective.abort();
    try {
      collective.collect(tower, {}, {});
    } catch (const Aborted&) {
      ++freed;
    }
  });
  EXPECT_EQ(freed, 2);
}

}  // namespace meeting_test
