#include <lockstep/error.h>

#include <cstring>

namespace lockstep {
namespace {

std::string describe(const std::exception_ptr& cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const std::exception& error) {
    // LibTorch appends a C++ backtrace; the first line is the message.
    const std::string text = error.what();
    return text.substr(0, text.find('\n'));
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

std::string tower_message(const std::string& device, std::int64_t step, int shard,
                          const std::string& stage, const std::exception_ptr& cause) {
  const std::string at = shard < 0 ? "" : ", shard " + std::to_string(shard);
  return "tower " + device + " failed in step " + std::to_string(step) + at + " (" + stage +
         "): " + describe(cause);
}

}  // namespace

IoError::IoError(const std::string& file, const std::string& action, int number)
    : std::runtime_error(file + ": cannot " + action + ": " + std::strerror(number)),
      path(file),
      error_number(number) {}

CorruptFile::CorruptFile(const std::string& file, std::uint64_t at, const std::string& expected)
    : std::runtime_error(file + ": at byte " + std::to_string(at) + ": expected " + expected),
      path(file),
      offset(at) {}

TowerError::TowerError(std::string on, std::int64_t at_step, int at_shard, std::string in,
                       std::exception_ptr why)
    : std::runtime_error(tower_message(on, at_step, at_shard, in, why)),
      device(std::move(on)),
      step(at_step),
      shard(at_shard),
      stage(std::move(in)),
      cause(std::move(why)) {}

DeviceLost::DeviceLost(const std::string& name, const std::string& what)
    : std::runtime_error(name + " was lost" + (what.empty() ? "" : ": " + what)), device(name) {}

bool is_non_finite(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const NonFiniteError&) {
    return true;
  } catch (const TowerError& tower) {
    return is_non_finite(tower.cause);
  } catch (...) {
    return false;
  }
  return false;
}

void check(bool condition, const char* message) {
  if (!condition) throw std::logic_error(message);
}

}  // namespace lockstep
