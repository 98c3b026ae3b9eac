#pragma once

// session.json in a run: what its last session trained on. Checkpoints hold no devices.

#include <lockstep/observer.h>

#include <string>
#include <vector>

namespace lockstep::apps {

/// Writes the file when a training starts. Trouble with the disk does not stop it.
class SessionFile : public Observer {
 public:
  explicit SessionFile(const std::string& run);
  void started(const TrainingStart& start) override;

 private:
  const std::string path_;
};

/// The devices of a run's last session; empty: unknown.
std::vector<std::string> session_devices(const std::string& run);

}  // namespace lockstep::apps
