#include "device_flags.h"

#include <lockstep/error.h>
#include <lockstep/placement.h>
#include <lockstep/sim.h>

#include <chrono>
#include <iostream>

namespace lockstep::apps {
namespace {

/// Softly, more CPU devices than cores take turns.
void require_cores(const std::vector<Device>& devices, const Inventory& machine) {
  for (const Device& device : devices)
    if (device.kind == DeviceKind::cpu && device.index >= machine.cores)
      throw ConfigError("--placement strict: there is no " + device.name() +
                        ", for this machine has " + std::to_string(machine.cores) +
                        " cores. With --placement soft CPU devices share cores.");
}

}  // namespace

void add_device_flags(CLI::App& command, DeviceFlags& flags) {
  command
      .add_option("--devices", flags.devices,
                  "auto: every GPU, else every core. Or cpu, gpu, sim: all of them. Or by number: "
                  "cpu:0-3, gpu:0,2, sim:0-1. GPUs are numbered after CUDA_VISIBLE_DEVICES")
      ->take_last();
  command
      .add_option("--placement", flags.placement,
                  "soft: devices that are not there are left out, what a device cannot run runs on "
                  "the CPU, and it is said; strict: both are errors")
      ->check(CLI::IsMember({"soft", "strict"}));
}

UsedDevices use_devices(const DeviceFlags& flags, const Environment& environment, bool timeline) {
  sim::Options simulated = environment.sim ? sim::parse_options(*environment.sim) : sim::Options{};
  Inventory machine = inventory();
  machine.sims = simulated.devices;
  const Placement placement = flags.placement == "soft" ? Placement::soft : Placement::strict;
  set_placement(placement);
  Resolved resolved = resolve_devices(flags.devices, placement, 1, machine);
  if (placement == Placement::strict) require_cores(resolved.devices, machine);
  simulated.timeline = timeline;
  if (resolved.devices.front().kind == DeviceKind::sim) sim::configure(simulated);
  const std::string sharing = oversubscription(resolved.devices, machine);
  return {std::move(resolved.devices), std::move(resolved.notes), sharing};
}

void tell(const UsedDevices& used) {
  for (const std::string& note : used.notes) std::cerr << "note: " << note << "\n";
  if (!used.sharing.empty()) std::cerr << "note: " << used.sharing << "\n";
}

Seconds now_on(const std::vector<Device>& devices) {
  if (devices.front().kind == DeviceKind::sim) return sim::host_now();
  return std::chrono::steady_clock::now().time_since_epoch();
}

}  // namespace lockstep::apps
