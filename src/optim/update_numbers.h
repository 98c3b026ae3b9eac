#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::optim {

/// How often each parameter was updated. As long as all have had every update, it holds nothing.
class UpdateNumbers {
 public:
  /// By parameter; empty: all have had every update.
  std::span<const std::int64_t> get() const { return numbers_; }

  /// One update more, after `updates` others: of the parameters in `reached`.
  void count(std::int64_t updates, std::span<const char> reached);

  /// The parameters in `chosen` have had none, the others of `updates` what they had.
  void reset(std::int64_t updates, std::span<const char> chosen);

  /// Empty: all have had every update.
  void restore(std::vector<std::int64_t> numbers) { numbers_ = std::move(numbers); }

 private:
  std::vector<std::int64_t> numbers_;
};

}  // namespace lockstep::optim
