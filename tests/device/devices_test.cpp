// What people write for devices, and what the machine offers.

#include <gtest/gtest.h>
#include <lockstep/device.h>
#include <lockstep/error.h>
#include <sched.h>

#include <thread>

namespace devices_test {

using namespace lockstep;

constexpr Inventory kCpuOnly{.cores = 4, .gpus = 0};
constexpr Inventory kThreeGpus{.cores = 8, .gpus = 3};

/// "cpu:0 cpu:1" for what `text` names on `machine`.
std::string names(std::string_view text, const Inventory& machine) {
  std::string result;
  for (const Device& device : parse_devices(text, 1, machine)) {
    if (!result.empty()) result += ' ';
    result += device.name();
  }
  return result;
}

/// The message of the ConfigError that `text` causes, else empty.
std::string refusal(std::string_view text, const Inventory& machine) {
  try {
    parse_devices(text, 1, machine);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

void expect_refused(std::string_view text, const Inventory& machine, const std::string& why) {
  const std::string message = refusal(text, machine);
  EXPECT_NE(message.find(why), std::string::npos) << "'" << text << "': " << message;
  EXPECT_NE(message.find("'" + std::string(text) + "'"), std::string::npos) << message;
}

TEST(Devices, ANameIsKindColonIndex) {
  EXPECT_EQ((Device{DeviceKind::cpu, 0}).name(), "cpu:0");
  EXPECT_EQ((Device{DeviceKind::gpu, 12}).name(), "gpu:12");
  EXPECT_EQ((Device{DeviceKind::sim, 2}).name(), "sim:2");
}

TEST(Devices, AutoIsEveryGpuElseEveryCore) {
  EXPECT_EQ(names("auto", kThreeGpus), "gpu:0 gpu:1 gpu:2");
  EXPECT_EQ(names("auto", kCpuOnly), "cpu:0 cpu:1 cpu:2 cpu:3");
}

TEST(Devices, ABareKindIsAllOfThem) {
  EXPECT_EQ(names("cpu", kThreeGpus), "cpu:0 cpu:1 cpu:2 cpu:3 cpu:4 cpu:5 cpu:6 cpu:7");
  EXPECT_EQ(names("gpu", kThreeGpus), "gpu:0 gpu:1 gpu:2");
  EXPECT_EQ(names("cuda", kThreeGpus), "gpu:0 gpu:1 gpu:2");
  EXPECT_EQ(names("/gpu", kThreeGpus), "gpu:0 gpu:1 gpu:2");
}

TEST(Devices, ANumberIsAlwaysAnIndex) {
  EXPECT_EQ(names("cpu:2", kCpuOnly), "cpu:2");
  EXPECT_EQ(names("cpu:0", kCpuOnly), "cpu:0");
  EXPECT_EQ(names("cuda:1", kThreeGpus), "gpu:1");
  EXPECT_EQ(names("gpu:2", kThreeGpus), "gpu:2");
}

TEST(Devices, RangesAndListsOfIndicesKeepTheirOrder) {
  EXPECT_EQ(names("cpu:0-3", kCpuOnly), "cpu:0 cpu:1 cpu:2 cpu:3");
  EXPECT_EQ(names("cpu:2-2", kCpuOnly), "cpu:2");
  EXPECT_EQ(names("gpu:0,2", kThreeGpus), "gpu:0 gpu:2");
  EXPECT_EQ(names("gpu:2,0", kThreeGpus), "gpu:2 gpu:0");
  EXPECT_EQ(names("cpu:0-1,3", kCpuOnly), "cpu:0 cpu:1 cpu:3");
}

TEST(Devices, ListsMayMixKindsAndSpellings) {
  EXPECT_EQ(names("cpu:0,cpu:1", kCpuOnly), "cpu:0 cpu:1");
  EXPECT_EQ(names("cpu:0,gpu:1", kThreeGpus), "cpu:0 gpu:1");
  EXPECT_EQ(names("gpu:0,2,cpu:0-1", kThreeGpus), "gpu:0 gpu:2 cpu:0 cpu:1");
  EXPECT_EQ(names("gpu,/device:CPU:0", kThreeGpus), "gpu:0 gpu:1 gpu:2 cpu:0");
}

TEST(Devices, TensorFlowsSpellingsAreRead) {
  EXPECT_EQ(names("/gpu:0", kThreeGpus), "gpu:0");
  EXPECT_EQ(names("/cpu:0", kCpuOnly), "cpu:0");
  EXPECT_EQ(names("/device:GPU:0", kThreeGpus), "gpu:0");
  EXPECT_EQ(names("/device:CPU:1", kCpuOnly), "cpu:1");
  EXPECT_EQ(names("GPU:1", kThreeGpus), "gpu:1");
}

TEST(Devices, SimulatedDevicesAreReadAndNeverAutomatic) {
  EXPECT_EQ(names("sim", kCpuOnly), "sim:0 sim:1 sim:2 sim:3");
  EXPECT_EQ(names("sim:0-1,3", kCpuOnly), "sim:0 sim:1 sim:3");
  EXPECT_EQ(names("/device:SIM:2", kCpuOnly), "sim:2");
  EXPECT_EQ(names("sim", {.cores = 1, .gpus = 0, .sims = 2}), "sim:0 sim:1");
  EXPECT_EQ(names("auto", {.cores = 1, .gpus = 0, .sims = 8}), "cpu:0");
  expect_refused("sim:4", kCpuOnly, "sim:4 is not there");
  expect_refused("sim:4", kCpuOnly, "simulated devices (sim:0-3)");
}

TEST(Devices, ThreadsGoToCpuDevicesOnly) {
  for (const char* text : {"auto", "cpu", "cpu:0-1", "/device:CPU:0"})
    for (const Device& device : parse_devices(text, 3, kCpuOnly)) EXPECT_EQ(device.threads, 3);
  for (const char* text : {"auto", "gpu", "gpu:0,2", "/device:GPU:0"})
    for (const Device& device : parse_devices(text, 3, kThreeGpus))
      EXPECT_EQ(device.threads, 1) << text;
  const auto mixed = parse_devices("cpu:0,gpu:0", 2, kThreeGpus);
  EXPECT_EQ(mixed[0].threads, 2);
  EXPECT_EQ(mixed[1].threads, 1);
}

TEST(Devices, FewerThanOneThreadIsRefused) {
  EXPECT_THROW(parse_devices("cpu:0", 0, kCpuOnly), ConfigError);
  EXPECT_THROW(parse_devices("cpu:0", -1, kCpuOnly), ConfigError);
  EXPECT_THROW(cpu_devices(1, 0), ConfigError);
  EXPECT_THROW(cpu_devices(0), ConfigError);
}

TEST(Devices, CpuDevicesCountFromZero) {
  const auto devices = cpu_devices(3, 2);
  ASSERT_EQ(devices.size(), 3U);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(devices[static_cast<std::size_t>(i)], (Device{DeviceKind::cpu, i, 2}));
}

TEST(Devices, TextThatCannotBeReadIsQuotedAndRefused) {
  expect_refused("", kCpuOnly, "not a kind");
  expect_refused("tpu:0", kCpuOnly, "'tpu' is not a kind");
  expect_refused("2", kCpuOnly, "not a kind");
  expect_refused("cpu:", kCpuOnly, "index");
  expect_refused("cpu:x", kCpuOnly, "index");
  expect_refused("cpu:-1", kCpuOnly, "index");
  expect_refused("cpu:99999999999", kCpuOnly, "index");
  expect_refused("cpu:0-", kCpuOnly, "index");
  expect_refused("cpu:0,", kCpuOnly, "not a kind");
  expect_refused("cpu:0;cpu:1", kCpuOnly, "';cpu:1' is left over");
  expect_refused("auto:0", kCpuOnly, "':0' is left over");
}

TEST(Devices, ABackwardsRangeIsRefused) { expect_refused("cpu:3-0", kCpuOnly, "upwards"); }

TEST(Devices, ADeviceNamedTwiceIsRefused) {
  expect_refused("cpu:0,cpu:0", kCpuOnly, "cpu:0 is named twice");
  expect_refused("cpu:0-2,1", kCpuOnly, "cpu:1 is named twice");
  expect_refused("gpu:1,cuda:1", kThreeGpus, "gpu:1 is named twice");
  expect_refused("auto,gpu:0", kThreeGpus, "gpu:0 is named twice");
}

TEST(Devices, AGpuThatIsNotThereIsRefusedWithWhatIs) {
  expect_refused("gpu:3", kThreeGpus, "gpu:3 is not there");
  expect_refused("gpu:3", kThreeGpus, "gpu:0-2, 8 CPU cores (cpu:0-7)");
  expect_refused("gpu:1", {.cores = 1, .gpus = 1}, "gpu:0, 1 CPU core (cpu:0)");
  expect_refused("gpu:0", kCpuOnly, "no GPU, 4 CPU cores (cpu:0-3)");
  expect_refused("gpu", kCpuOnly, "there is no GPU");
}

/// "cpu:0 cpu:1 | note" for what soft placement makes of `text`.
std::string softly(std::string_view text, const Inventory& machine) {
  const Resolved resolved = resolve_devices(text, Placement::soft, 3, machine);
  std::string result;
  for (const Device& device : resolved.devices) {
    result += device.name() + " ";
    EXPECT_EQ(device.threads, device.kind == DeviceKind::cpu ? 3 : 1);
  }
  for (const std::string& note : resolved.notes) result += "| " + note;
  return result;
}

TEST(SoftPlacement, ChangesNothingWhenAllIsThere) {
  EXPECT_EQ(softly("auto", kCpuOnly), "cpu:0 cpu:1 cpu:2 cpu:3 ");
  EXPECT_EQ(softly("gpu:0,2,cpu:9", kThreeGpus), "gpu:0 gpu:2 cpu:9 ");
}

TEST(SoftPlacement, CpuDevicesTakeThePlaceOfDevicesOfWhichNoneIsThereAndItIsSaid) {
  EXPECT_EQ(softly("gpu:0,gpu:1", kCpuOnly), "cpu:0 cpu:1 | there is no GPU; cpu:0-1 instead.");
  EXPECT_EQ(softly("sim:4,gpu:0", kCpuOnly),
            "cpu:0 cpu:1 | not there: sim:4,gpu:0; cpu:0-1 instead.");
}

TEST(SoftPlacement, LeavesOutDevicesThatAreNotThereAndSaysSo) {
  EXPECT_EQ(softly("gpu:1-4", kThreeGpus), "gpu:1 gpu:2 | not there: gpu:3-4; only gpu:1-2.");
  EXPECT_EQ(softly("gpu:7,1,5", kThreeGpus), "gpu:1 | not there: gpu:7,gpu:5; only gpu:1.");
  EXPECT_EQ(softly("gpu:0-1,cpu:1", kCpuOnly), "cpu:1 | not there: gpu:0-1; only cpu:1.");
}

TEST(SoftPlacement, ABareKindThatIsNotThereIsEveryCore) {
  EXPECT_EQ(softly("gpu", kCpuOnly), "cpu:0 cpu:1 cpu:2 cpu:3 | there is no GPU; cpu:0-3 instead.");
}

TEST(SoftPlacement, DoesNotHelpTextThatCannotBeRead) {
  EXPECT_THROW(softly("tpu:0", kCpuOnly), ConfigError);
  EXPECT_THROW(softly("gpu:0,gpu:0", kCpuOnly), ConfigError);
  EXPECT_THROW(resolve_devices("gpu:0", Placement::strict, 1, kCpuOnly), ConfigError);
}

TEST(Devices, MoreCpuDevicesThanCoresAreAllowedAndSaid) {
  const auto devices = parse_devices("cpu:0-5", 1, kCpuOnly);
  EXPECT_EQ(devices.size(), 6U);
  const std::string said = oversubscription(devices, kCpuOnly);
  EXPECT_NE(said.find("6 threads"), std::string::npos) << said;
  EXPECT_NE(said.find("4 cores"), std::string::npos) << said;
  EXPECT_EQ(said.find('\n'), std::string::npos) << said;
}

TEST(Devices, OversubscriptionCountsThreadsOfCpuDevices) {
  EXPECT_EQ(oversubscription(cpu_devices(4), kCpuOnly), "");
  EXPECT_EQ(oversubscription(cpu_devices(2, 2), kCpuOnly), "");
  EXPECT_NE(oversubscription(cpu_devices(2, 3), kCpuOnly), "");
  EXPECT_EQ(oversubscription(parse_devices("gpu", 1, kThreeGpus), {.cores = 1, .gpus = 3}), "");
}

TEST(Devices, ShardsThatTheyShareEvenlyAreNoMatter) {
  for (const auto& [shards, devices] : {std::pair(4, 1), {4, 2}, {4, 4}, {1, 1}, {6, 3}, {8, 8}})
    EXPECT_EQ(uneven_shards(shards, devices), "") << shards << " on " << devices;
}

TEST(Devices, ShardsThatTheyCannotShareEvenlyAreSaidWithNumbersThatTheyCan) {
  EXPECT_EQ(uneven_shards(4, 3),
            "4 shards on 3 devices: one device computes 2 while the others compute 1; with 3 or 6 "
            "shards they share evenly, and the result is another one.");
  EXPECT_EQ(uneven_shards(8, 3),
            "8 shards on 3 devices: 2 devices compute 3 while the other computes 2; with 6 or 9 "
            "shards they share evenly, and the result is another one.");
  EXPECT_EQ(uneven_shards(4, 8),
            "4 shards on 8 devices: 4 devices have no shard to compute; with 8 shards every device "
            "has one, and the result is another one.");
  EXPECT_EQ(uneven_shards(1, 2),
            "1 shard on 2 devices: one device has no shard to compute; with 2 shards every device "
            "has one, and the result is another one.");
}

TEST(Devices, TheInventoryCountsOnlyTheCoresOfTheAffinityMask) {
  // On a thread of its own: an affinity mask belongs to a thread and ends with it.
  int cores = 0;
  std::size_t all = 0;
  std::jthread([&] {
    cpu_set_t allowed, one;
    CPU_ZERO(&one);
    ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    int last = CPU_SETSIZE - 1;
    while (!CPU_ISSET(last, &allowed)) --last;
    CPU_SET(last, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    cores = inventory().cores;
    all = parse_devices("cpu").size();
  }).join();
  EXPECT_EQ(cores, 1);
  EXPECT_EQ(all, 1U);
  EXPECT_GE(inventory().cores, 1);
}

TEST(Devices, AllDevicesAreWhatAutoNames) {
  EXPECT_EQ(all_devices(), parse_devices("auto", 1, inventory()));
  EXPECT_FALSE(all_devices().empty());
}

}  // namespace devices_test
