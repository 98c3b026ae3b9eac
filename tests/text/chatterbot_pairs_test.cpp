// Conversations in YAML.

#include <gtest/gtest.h>

#include "pairs.h"

namespace chatterbot_pairs_test {

using namespace lockstep;
using namespace lockstep::text;
using namespace lockstep::tests;
using Examples = std::vector<std::string>;

class ChatterbotPairs : public testing::Test {
 protected:
  PairReport read(const std::string& yaml, OnBadPair on_bad = OnBadPair::skip) {
    pairs.clear();
    return read_chatterbot_pairs(write(folder, "x.yml", yaml), on_bad, into(pairs));
  }

  /// A file with this is refused whatever is to become of bad pairs.
  void expect_refused(const std::string& yaml, std::uint64_t offset, const std::string& what) {
    expect_corrupt(path, offset, what, [&] { read(yaml, OnBadPair::skip); });
  }

  const Folder folder;
  const std::string path = folder.path("x.yml");
  Pairs pairs;
};

TEST_F(ChatterbotPairs, EachLineAndTheOneAfterItAreAPair) {
  const PairReport report = read(
      "categories:\n- AI\nconversations:\n"
      "- - What is AI?\n  - A branch of engineering.\n"
      "- - Hello\n  - Hi\n  - How are you?\n  - Fine\n");
  EXPECT_EQ(pairs, (Pairs{{"What is AI?", "A branch of engineering."},
                          {"Hello", "Hi"},
                          {"Hi", "How are you?"},
                          {"How are you?", "Fine"}}));
  EXPECT_EQ(report.pairs, 4);
  EXPECT_EQ(report.examples, Examples{});
}

TEST_F(ChatterbotPairs, NumbersAndWordsOfYamlStayTheTextAsWritten) {
  read("conversations: [[007, yes], [1.50, ~], [null, 0x1F], ['''quoted''', \"tab\\tbed\"]]");
  EXPECT_EQ(pairs,
            (Pairs{{"007", "yes"}, {"1.50", "~"}, {"null", "0x1F"}, {"'quoted'", "tab bed"}}));
}

TEST_F(ChatterbotPairs, ABlockOfLinesIsOneText) {
  read(
      "conversations:\n- - |\n    one\n    two\n  - >-\n    three\n\n    four\n  - five\n    "
      "six\n");
  EXPECT_EQ(pairs, (Pairs{{"one two", "three four"}, {"three four", "five six"}}));
}

TEST_F(ChatterbotPairs, AByteOrderMarkCrLfOtherKeysAndSeveralDocumentsAreFine) {
  read("\xef\xbb\xbf# x\r\nauthor: {name: [a, {b: c}]}\r\nconversations:\r\n- - a\r\n  - b\r\n");
  EXPECT_EQ(pairs, (Pairs{{"a", "b"}}));
  read("conversations: [[a, b]]\n---\nconversations: [[c, d]]\n");
  EXPECT_EQ(pairs, (Pairs{{"a", "b"}, {"c", "d"}}));
}

TEST_F(ChatterbotPairs, ALineWithoutAnAnswerIsAnEmptySide) {
  const PairReport report =
      read("conversations:\n- - a\n  - b\n- alone\n- - alone\n- []\n- - c\n  - ''\n  - d\n");
  EXPECT_EQ(pairs, (Pairs{{"a", "b"}}));
  EXPECT_EQ(count(report, PairFault::empty_side), 5);
  EXPECT_EQ(report.examples,
            (Examples{path + ":4: empty side", path + ":5: empty side", path + ":6: empty side",
                      path + ":8: empty side", path + ":8: empty side"}));
}

TEST_F(ChatterbotPairs, BadUtf8SpoilsItsPairsOnly) {
  const std::string yaml = "conversations:\n- - \u00e9\n  - caf\xe9\n- - c\n  - d\n";
  const PairReport report = read(yaml);
  EXPECT_EQ(pairs, (Pairs{{"c", "d"}}));
  EXPECT_EQ(count(report, PairFault::bad_utf8), 1);
  EXPECT_EQ(report.examples, (Examples{path + ":3: bad UTF-8"}));
  expect_corrupt(path, 26, "valid UTF-8 in line 3", [&] { read(yaml, OnBadPair::refuse); });
}

TEST_F(ChatterbotPairs, OffsetsAreBytesAfterAMarkAndBadBytes) {
  expect_corrupt(path, 35, "in line 2", [&] {
    read("\xef\xbb\xbf# \xff\xc3\xa9\r\nconversations: [[a, b], [\"\", c]]", OnBadPair::refuse);
  });
}

TEST_F(ChatterbotPairs, AnythingButTextInAConversationIsRefusedWithItsLine) {
  const std::string begin = "conversations:\n- - a\n  - b\n";
  expect_refused(begin + "- - c\n  - d: e\n", 37, "a text, in quotes if it has a colon, in line 5");
  expect_refused(begin + "- - c\n  - [d]\n", 37, "in line 5");
  expect_refused(begin + "- - &x c\n  - *x\n", 40, "in line 5");
  expect_refused(begin + "- {c: d}\n", 29, "a conversation: a list of texts, in line 4");
  expect_refused("conversations:\n  a: b\n", 17, "a list of conversations in line 2");
  expect_refused("conversations:\n", 14, "a list of conversations in line 1");
}

TEST_F(ChatterbotPairs, AFileWithoutConversationsIsRefused) {
  expect_refused("", 0, "a document with \"conversations\" in line 1");
  expect_refused("# nothing\n", 10, "a document with \"conversations\" in line 2");
  expect_refused("- a\n", 0, "\"categories\" and \"conversations\", each with a list, in line 1");
  expect_refused("text", 0, "each with a list, in line 1");
  expect_refused("categories:\n- AI\n", 17, "a list of \"conversations\" before the end in line 3");
}

TEST_F(ChatterbotPairs, WhatIsNotYamlIsRefusedWithItsLine) {
  expect_refused("conversations:\n- - a\n  - b\n - c\n", 28, "YAML in line 4 (did not find");
  expect_refused("conversations: [[a, \"b\n", 23, "YAML in line 2 (");
  expect_refused("conversations:\n- - a\n  - \xc3\xa9\x01\n", 27,
                 "YAML in line 3 (control characters are not allowed)");
}

TEST_F(ChatterbotPairs, DeepListsAndAliasesTakeNoTime) {
  expect_refused("x: " + std::string(1'000'000, '['), 67, "nested less deeply in line 1");
  std::string laughs = "a0: &a0 [x]\n";  // 10^30 times x, if aliases were followed
  for (int i = 1; i <= 30; ++i) {
    const std::string name = "a" + std::to_string(i), last = "*a" + std::to_string(i - 1);
    laughs += name + ": &" + name + " [";
    for (int k = 0; k < 10; ++k) laughs += last + (k < 9 ? "," : "]\n");
  }
  read(laughs + "conversations: [[a, b]]\n");
  EXPECT_EQ(pairs, (Pairs{{"a", "b"}}));
}

TEST_F(ChatterbotPairs, AFolderIsReadByName) {
  write(folder, "b.yml", "conversations: [[3, 4]]");
  write(folder, "a.yml", "conversations: [[1, 2], []]");
  write(folder, "a.txt", "not YAML: [");
  const PairReport report = read_chatterbot_pairs(folder.path(), OnBadPair::skip, into(pairs));
  EXPECT_EQ(pairs, (Pairs{{"1", "2"}, {"3", "4"}}));
  EXPECT_EQ(report.pairs, 2);
  EXPECT_EQ(report.examples, (Examples{folder.path("a.yml") + ":1: empty side"}));
}

TEST_F(ChatterbotPairs, AFolderWithoutAnyIsAConfigErrorAndAMissingFileAnIoError) {
  EXPECT_THROW(read_chatterbot_pairs(folder.path(), OnBadPair::skip, into(pairs)), ConfigError);
  expect_missing(path, [&] { read_chatterbot_pairs(path, OnBadPair::skip, into(pairs)); });
}

}  // namespace chatterbot_pairs_test
