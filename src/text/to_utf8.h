#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::text {

/// Texts of a charset as UTF-8. What is UTF-8 already goes through as it is, valid or not.
class ToUtf8 {
 public:
  /// Nothing when the system does not know the charset.
  static std::optional<ToUtf8> from(const std::string& charset);

  /// Nothing when `text` is not of the charset.
  std::optional<std::string> operator()(std::string_view text) const;

 private:
  struct Close {
    void operator()(void* converter) const;
  };
  std::unique_ptr<void, Close> converter_;  ///< iconv's; null for UTF-8
};

}  // namespace lockstep::text
