// How texts are made tidy and how faults are counted, whatever the file.

#include "text/pair_rules.h"

#include <gtest/gtest.h>

#include "pairs.h"

namespace pair_rules_test {

using namespace lockstep;
using namespace lockstep::text;
using namespace lockstep::tests;
using namespace std::string_literals;

TEST(TidyText, RunsOfWhiteSpaceAreOneSpaceAndNoneIsAtTheEnds) {
  EXPECT_EQ(tidy_text(" \t one \r\n\v\f two\n"), "one two");
  EXPECT_EQ(tidy_text("a\u0085\u1680\u2000\u200ab\u2028\u2029\u205fc\u3000"), "a b c");
  EXPECT_EQ(tidy_text(" \n\t"), "");
  EXPECT_EQ(tidy_text(""), "");
}

TEST(TidyText, NoBreakSpacesStay) {
  EXPECT_EQ(tidy_text("quoi\u00a0? \u202fnon\u2007"), "quoi\u00a0? \u202fnon\u2007");
}

TEST(TidyText, ControlCharactersGo) {
  EXPECT_EQ(tidy_text("a\0b\x01\x1f\x7f\u0080\u009fc"s), "abc");
  EXPECT_EQ(tidy_text("a \x01 b \x02"), "a b");
  EXPECT_EQ(tidy_text("\x01 a"), "a");
}

TEST(TidyText, EveryLengthOfCharacterIsValidUpToItsLast) {
  for (const std::string text : {"\u00a1", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff",
                                 "\U00010000", "\U0010ffff", "\U0001f600", "\u200d"})
    EXPECT_EQ(tidy_text(text), text);
}

TEST(TidyText, WhatIsNotUtf8IsNoText) {
  const std::string bad[] = {"\x80",              // goes on without a beginning
                             "\xc3",              // cut short
                             "\xc3 ",             // broken off
                             "\xe2\x82",          // cut short
                             "\xf0\x9f\x98",      // cut short
                             "\xc0\xaf",          // longer than it need be
                             "\xc1\xbf",          // the same
                             "\xe0\x9f\xbf",      // the same
                             "\xf0\x8f\xbf\xbf",  // the same
                             "\xed\xa0\x80",      // a surrogate
                             "\xed\xbf\xbf",      // the last of them
                             "\xf4\x90\x80\x80",  // beyond U+10FFFF
                             "\xf5\x80\x80\x80",
                             "\xff",
                             "caf\xe9"};
  for (const std::string& text : bad) {
    EXPECT_EQ(tidy_text(text), std::nullopt) << testing::PrintToString(text);
    EXPECT_EQ(tidy_text("before" + text + "after"), std::nullopt);
  }
  EXPECT_EQ(tidy_text(kNoText), std::nullopt);
}

TEST(PairRules, APairHasOneFaultAndItIsNamedWhereItsSideStands) {
  Pairs pairs;
  const PairSink sink = into(pairs);
  PairRules rules(OnBadPair::skip, sink);
  const Place source{"a", 3}, target{"b", 4};
  rules.add({"x", source}, {"y", target});
  rules.add({"\xff", source}, {"", target});
  rules.add({"", source}, {"\xff", target});
  rules.add({" ", source}, {"y", target});
  rules.add({"x", source}, {"\x01", target});
  rules.add({"", source}, {"", target});
  const PairReport report = rules.report();
  EXPECT_EQ(pairs, (Pairs{{"x", "y"}}));
  EXPECT_EQ(report.pairs, 1);
  EXPECT_EQ(count(report, PairFault::bad_utf8), 2);
  EXPECT_EQ(count(report, PairFault::empty_side), 3);
  EXPECT_EQ(report.examples,
            (std::vector<std::string>{"a:3: bad UTF-8", "b:4: bad UTF-8", "a:3: empty side",
                                      "b:4: empty side", "a:3: empty side"}));
}

TEST(PairRules, TheFirstTenExamplesAreKeptAndAllAreCounted) {
  const PairSink sink = [](const TextPair&) {};
  PairRules rules(OnBadPair::skip, sink);
  for (std::uint64_t line = 1; line <= 12; ++line)
    rules.add_fault(PairFault::missing_tab, {"x", line});
  PairReport report = rules.report();
  EXPECT_EQ(count(report, PairFault::missing_tab), 12);
  ASSERT_EQ(report.examples.size(), 10U);
  EXPECT_EQ(report.examples.back(), "x:10: missing tab");
}

TEST(PairReport, SumsAddUpAndKeepTheFirstTenExamples) {
  PairReport sum{2, {1, 0, 4}, std::vector<std::string>(8, "first")};
  sum += {3, {1, 2, 0}, std::vector<std::string>(5, "second")};
  EXPECT_EQ(sum.pairs, 5);
  EXPECT_EQ(sum.bad, (std::array<std::int64_t, 3>{2, 2, 4}));
  ASSERT_EQ(sum.examples.size(), 10U);
  EXPECT_EQ(sum.examples[7], "first");
  EXPECT_EQ(sum.examples[8], "second");
}

TEST(FilesOfPairs, AFolderGivesItsFilesOfTheKindByName) {
  const Folder folder;
  write(folder, "b.mo", "");
  write(folder, "a.mo", "");
  write(folder, "B.mo", "");
  write(folder, "a.mo.bak", "");
  write(folder, "inner.mo/c.mo", "");
  EXPECT_EQ(
      pair_files(folder.path(), ".mo"),
      (std::vector<std::string>{folder.path("B.mo"), folder.path("a.mo"), folder.path("b.mo")}));
  EXPECT_EQ(pair_files(folder.path("a.mo.bak"), ".mo"),
            (std::vector<std::string>{folder.path("a.mo.bak")}));
}

TEST(FilesOfPairs, AFolderWithoutSuchFilesSaysWhatToDo) {
  const Folder folder;
  write(folder, "a.txt", "");
  try {
    pair_files(folder.path(), ".yml");
    FAIL() << "a folder without files was taken";
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find(folder.path()), std::string::npos) << text;
    EXPECT_NE(text.find("no *.yml file in this folder; name one"), std::string::npos) << text;
  }
}

}  // namespace pair_rules_test
