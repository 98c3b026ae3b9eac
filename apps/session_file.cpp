#include "session_file.h"

#include <ctime>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "run_folder.h"

namespace lockstep::apps {
namespace {

std::string session_path(const std::string& run) { return run + "/session.json"; }

}  // namespace

SessionFile::SessionFile(const std::string& run) : path_(session_path(run)) {}

void SessionFile::started(const TrainingStart& start) {
  const nlohmann::ordered_json session = {{"started", std::time(nullptr)},
                                          {"step", start.progress.step},
                                          {"strategy", start.strategy},
                                          {"devices", start.devices},
                                          {"shards", start.shards}};
  session_ = session.dump(1) + "\n";
}

void SessionFile::stepped(const StepReport&, const TrainingProgress&) {
  if (session_.empty()) return;
  try {
    replace_file(path_, std::exchange(session_, ""));
  } catch (const std::exception& problem) {
    std::cerr << "note: " << problem.what() << "\n";
  }
}

std::vector<std::string> session_devices(const std::string& run) {
  std::ifstream file(session_path(run));
  const auto session = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!session.is_object() || !session.contains("devices")) return {};
  std::vector<std::string> devices;
  for (const auto& device : session["devices"])
    if (device.is_string()) devices.push_back(device);
  return devices;
}

}  // namespace lockstep::apps
