#pragma once

// The flags that say where to train, the same for every command that does.

#include <lockstep/device.h>
#include <lockstep/report.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "environment.h"

namespace lockstep::apps {

struct DeviceFlags {
  std::string devices = "auto";
  std::string placement = "soft";
};

void add_device_flags(CLI::App& command, DeviceFlags& flags);

struct UsedDevices {
  std::vector<Device> devices;
  std::vector<std::string> notes;  ///< what was left out
  std::string sharing;  ///< the threads of the devices share cores; the first report of a training
                        ///< says so too
};

/// The devices that the flags name; if they are simulated ones, the simulated machine is made too.
UsedDevices use_devices(const DeviceFlags& flags, const Environment& environment,
                        bool timeline = false);

/// Says on the error stream what there is to say of them.
void tell(const UsedDevices& used);

/// A clock for trainings on `devices`: virtual time on simulated ones.
Seconds now_on(const std::vector<Device>& devices);

}  // namespace lockstep::apps
