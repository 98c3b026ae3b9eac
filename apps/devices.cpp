// `lockstep devices`: what there is, and what would be used.

#include <lockstep/device.h>
#include <lockstep/gpu.h>
#include <lockstep/sim.h>

#include <iomanip>
#include <iostream>
#include <memory>

#include "commands.h"
#include "device_flags.h"

namespace lockstep::apps {
namespace {

/// "cpu:0" or "cpu:0-3".
std::string range(const std::string& kind, int count) {
  return kind + (count == 1 ? ":0" : ":0-" + std::to_string(count - 1));
}

void show_gpus(const std::optional<std::string>& visible) {
  const auto gpus = gpu::list();
  if (gpus.empty()) std::cout << "gpu  no GPU: " << gpu::why_none(visible) << "\n";
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const int number = static_cast<int>(i);
    std::cout << (i == 0 ? "gpu  " : "     ") << "gpu:" << number << "  " << gpus[i].name << ", "
              << std::fixed << std::setprecision(1)
              << static_cast<double>(gpus[i].memory_bytes) / (1 << 30) << " GiB, physical "
              << gpu::physical_name(number, visible) << ", " << gpus[i].uuid << ", PCI "
              << gpus[i].bus_id << "\n";
  }
}

int show(const DeviceFlags& how, const Environment& environment) {
  Inventory machine = inventory();
  if (environment.sim) machine.sims = sim::parse_options(*environment.sim).devices;
  const Placement placement = how.placement == "soft" ? Placement::soft : Placement::strict;
  const Resolved used = resolve_devices(how.devices, placement, 1, machine);

  std::cout << "cpu  " << range("cpu", machine.cores) << "  " << machine.cores
            << (machine.cores == 1 ? " core" : " cores") << "\n";
  show_gpus(environment.cuda_visible_devices);
  std::cout << "sim  " << range("sim", machine.sims) << "  simulated, on request\n\n";

  std::cout << "--devices " << how.devices << " uses";
  for (const Device& device : used.devices) std::cout << " " << device.name();
  std::cout << "\n";
  for (const std::string& note : used.notes) std::cout << "note: " << note << "\n";
  if (const auto note = oversubscription(used.devices, machine); !note.empty())
    std::cout << "note: " << note << "\n";
  return 0;
}

}  // namespace

void add_devices(CLI::App& app, const Environment& environment, Run& run) {
  const auto how = std::make_shared<DeviceFlags>();
  CLI::App* command = app.add_subcommand(
      "devices", "Shows the devices of this machine, and which of them would be used.");
  add_device_flags(*command, *how);
  command->callback(
      [how, environment, &run] { run = [how, environment] { return show(*how, environment); }; });
}

}  // namespace lockstep::apps
