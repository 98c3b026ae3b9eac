#pragma once

// What a reader of text pairs hands over, and files for it.

#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <lockstep/text/pairs.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folder.h"

namespace lockstep::tests {

using Pairs = std::vector<std::pair<std::string, std::string>>;

inline text::PairSink into(Pairs& pairs) {
  return [&pairs](text::TextPair pair) {
    pairs.emplace_back(std::move(pair.source), std::move(pair.target));
  };
}

inline std::string write(const Folder& folder, const std::string& name, std::string_view text) {
  return folder.write(name, {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

inline std::int64_t count(const text::PairReport& report, text::PairFault fault) {
  return report.bad[static_cast<std::size_t>(fault)];
}

/// `read` must throw CorruptFile for `path` at `offset`, with `what` in its message.
template <class Read>
void expect_corrupt(const std::string& path, std::uint64_t offset, const std::string& what,
                    Read read) {
  try {
    read();
    ADD_FAILURE() << path << " was read; expected: " << what;
  } catch (const CorruptFile& error) {
    EXPECT_EQ(error.path, path);
    EXPECT_EQ(error.offset, offset) << error.what();
    EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
  }
}

template <class Read>
void expect_missing(const std::string& path, Read read) {
  try {
    read();
    ADD_FAILURE() << path << " was read";
  } catch (const IoError& error) {
    EXPECT_EQ(error.path, path);
    EXPECT_EQ(error.error_number, ENOENT);
  }
}

}  // namespace lockstep::tests
