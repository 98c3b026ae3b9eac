#pragma once

// What Lockstep throws. Each message says what was asked, what was found and what to do.

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>

namespace lockstep {

/// Something the user can fix: a flag, an option, a device that does not exist.
struct ConfigError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The operating system refused to open, read or write a file.
struct IoError : std::runtime_error {
  IoError(const std::string& path, const std::string& action, int error_number);
  std::string path;
  int error_number;
};

/// A file is not what it claims to be.
struct CorruptFile : std::runtime_error {
  CorruptFile(const std::string& path, std::uint64_t offset, const std::string& expected);
  std::string path;
  std::uint64_t offset;  ///< in bytes, of the uncompressed content
};

/// A tower failed. The step has ended on all towers, nothing of it was applied, and the next step
/// may be tried. The exception is the stage "update": then the weights are lost, and every later
/// call says so until a state is loaded. `cause` is what the tower threw.
struct TowerError : std::runtime_error {
  TowerError(std::string device, std::int64_t step, int shard, std::string stage,
             std::exception_ptr cause);
  std::string device;  ///< "cpu:1"
  std::int64_t step;
  int shard;          ///< -1: outside any shard
  std::string stage;  ///< "forward", "backward", "reduce", ...
  std::exception_ptr cause;
};

/// A device is gone: what was in its memory is lost. The cause inside a TowerError.
struct DeviceLost : std::runtime_error {
  explicit DeviceLost(const std::string& name, const std::string& what = "");
  std::string device;  ///< "gpu:1"
};

/// A loss or a gradient was infinite or not a number; the cause inside a TowerError. A Trainer
/// throws it too, for weights that it does not save.
struct NonFiniteError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Whether a training has diverged: `error` is a NonFiniteError, or a TowerError because of one.
bool is_non_finite(const std::exception_ptr& error);

/// Throws std::logic_error with `message` unless `condition`: a precondition, also in release
/// builds.
void check(bool condition, const char* message);

}  // namespace lockstep
