#pragma once

// What the tests of readers of boxes have in common.

#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <lockstep/vision/box_set.h>

#include <string>
#include <string_view>
#include <vector>

#include "folder.h"
#include "pictures.h"

namespace lockstep::tests {

inline std::string write_text(const Folder& folder, const std::string& name,
                              std::string_view text) {
  return folder.write(name, {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

/// A small PNG of that size.
inline std::string write_picture(const Folder& folder, const std::string& name, int width,
                                 int height) {
  return folder.write(
      name, png_file(width, height, PNG_FORMAT_RGB, gradient(width, height).pixels.data()));
}

/// Calls `read` and expects an Error whose message has every part.
template <class Error, class Read>
void expect_error(const Read& read, const std::vector<std::string>& parts) {
  try {
    read();
    FAIL() << "nothing was thrown, expected: " << parts.front();
  } catch (const Error& error) {
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

/// Expects that only this fault was counted, once, with an example that has every part; and that
/// it is refused on request.
template <class Read>
void expect_fault(const Read& read, vision::BoxFault fault, const std::vector<std::string>& parts) {
  const vision::BoxReport report = read(vision::OnBadBox::skip).report;
  EXPECT_EQ(report.total(), 1) << parts.front();
  EXPECT_EQ(report.count(fault), 1) << parts.front();
  ASSERT_EQ(report.examples.size(), 1U) << parts.front();
  for (const std::string& part : parts)
    EXPECT_NE(report.examples[0].find(part), std::string::npos) << report.examples[0];
  expect_error<ConfigError>([&] { read(vision::OnBadBox::refuse); }, parts);
}

}  // namespace lockstep::tests
