#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace utf8_test {

using lockstep::base::take_character;
using lockstep::base::valid_utf8;

TEST(Utf8, ValidTextIsUnchanged) {
  const std::string text(
      "a\0\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf",
      24);
  EXPECT_EQ(valid_utf8(text), text);
}

TEST(Utf8, EveryInvalidByteIsReplaced) {
  const std::string sign = "\xef\xbf\xbd";
  EXPECT_EQ(valid_utf8("\x80"), sign);                                   // a lone follower
  EXPECT_EQ(valid_utf8("\xc0\xaf"), sign + sign);                        // longer than need be
  EXPECT_EQ(valid_utf8("\xe0\x80\x80"), sign + sign + sign);             // the same
  EXPECT_EQ(valid_utf8("\xed\xa0\x80"), sign + sign + sign);             // a surrogate
  EXPECT_EQ(valid_utf8("\xf4\x90\x80\x80"), sign + sign + sign + sign);  // beyond U+10FFFF
  EXPECT_EQ(valid_utf8("\xf0\x8f\xbf\xbf"), sign + sign + sign + sign);  // longer than need be
  EXPECT_EQ(valid_utf8("\xe2\x82"), sign + sign);                        // cut short
  EXPECT_EQ(valid_utf8("\xe2(x"), sign + "(x");
  EXPECT_EQ(valid_utf8("\xff"), sign);
}

TEST(Utf8, CharactersAreTakenOneByOneAndABadByteAlone) {
  std::string_view text = "a\xc3\xa9\xff\xf0\x9f\x98\x80";
  EXPECT_EQ(take_character(text), U'a');
  EXPECT_EQ(take_character(text), U'\u00e9');
  EXPECT_EQ(take_character(text), std::nullopt);
  EXPECT_EQ(take_character(text), U'\U0001f600');
  EXPECT_TRUE(text.empty());
}

}  // namespace utf8_test
