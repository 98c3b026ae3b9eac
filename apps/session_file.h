#pragma once

// session.json in a run: what its last session trained on. Checkpoints hold no devices.

#include <lockstep/observer.h>

#include <string>
#include <vector>

namespace lockstep::apps {

/// Writes the file at the first step of a session: a run that was finished stays as it is. Trouble
/// with the disk does not stop a training.
class SessionFile : public Observer {
 public:
  explicit SessionFile(const std::string& run);
  void started(const TrainingStart& start) override;
  void stepped(const StepReport& step, const TrainingProgress& progress) override;

 private:
  const std::string path_;
  std::string session_;  ///< empty: it is written
};

/// The devices of a run's last session; empty: unknown.
std::vector<std::string> session_devices(const std::string& run);

}  // namespace lockstep::apps
