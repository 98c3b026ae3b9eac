#pragma once

// A timeline that a person can open: Chrome's trace format, for chrome://tracing or Perfetto.

#include <lockstep/seconds.h>

#include <mutex>
#include <string>
#include <vector>

namespace lockstep {

/// Collects spans; any thread may add. Times are since one common beginning, real or virtual.
class Trace {
 public:
  /// A span on track `track` ("compute", "reduce", ...) of `device`.
  void add(const std::string& device, const std::string& track, const std::string& name,
           Seconds begin, Seconds end);

  /// The whole trace as JSON.
  std::string json() const;

  /// Written aside and renamed. Throws IoError.
  void write(const std::string& path) const;

 private:
  struct Span {
    std::string device, track, name;
    Seconds begin, end;
  };

  mutable std::mutex mutex_;
  std::vector<Span> spans_;  // guarded by mutex_
};

}  // namespace lockstep
