#pragma once

// What flags allow, in words: CLI11's own checks print every digit of the largest number.

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <string>

namespace lockstep::apps {

namespace detail {

inline CLI::Validator number_check(const std::string& what, double low, bool without_low,
                                   bool whole) {
  return CLI::Validator(
      [=](const std::string& text) -> std::string {
        double number = 0;
        const char* end = text.data() + text.size();
        const auto read = std::from_chars(text.data(), end, number);
        const bool fits = read.ec == std::errc() && read.ptr == end && std::isfinite(number) &&
                          (without_low ? number > low : number >= low) &&
                          (!whole || std::trunc(number) == number);
        return fits ? "" : "'" + text + "' is no " + what;
      },
      "", "");
}

}  // namespace detail

/// A whole number of at least `low`.
inline CLI::Validator whole_number(int low) {
  return detail::number_check("whole number of at least " + std::to_string(low), low, false, true);
}

/// A number above 0.
inline CLI::Validator above_zero() {
  return detail::number_check("number above 0", 0, true, false);
}

/// A number of at least 0.
inline CLI::Validator not_negative() {
  return detail::number_check("number of at least 0", 0, false, false);
}

}  // namespace lockstep::apps
