// Pairs from lines: one file with tabs, or two files side by side.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <future>
#include <thread>

#include "pairs.h"
#include "text/pair_rules.h"

namespace tsv_pairs_test {

using namespace lockstep;
using namespace lockstep::text;
using namespace lockstep::tests;

struct Found {
  Pairs pairs;
  PairReport report;
};

Found read_tsv(const std::string& path, OnBadPair on_bad = OnBadPair::skip) {
  Found found;
  found.report = read_tsv_pairs(path, on_bad, into(found.pairs));
  return found;
}

Found read_parallel(const std::string& source, const std::string& target,
                    OnBadPair on_bad = OnBadPair::skip) {
  Found found;
  found.report = read_parallel_pairs(source, target, on_bad, into(found.pairs));
  return found;
}

TEST(TsvPairs, TheFirstTwoColumnsAreAPair) {
  const Folder folder;
  const Found found = read_tsv(write(folder, "x", "Hi.\tSalut !\tCC-BY 2.0\t#1\nGo.\t Va  !\n"));
  EXPECT_EQ(found.pairs, (Pairs{{"Hi.", "Salut !"}, {"Go.", "Va !"}}));
  EXPECT_EQ(found.report.pairs, 2);
  EXPECT_EQ(found.report.examples, std::vector<std::string>{});
}

TEST(TsvPairs, AByteOrderMarkCrLfAndAMissingLastLineEndAreNoPartOfTheText) {
  const Folder folder;
  const Found found = read_tsv(write(folder, "x",
                                     "\xef\xbb\xbf"
                                     "a\tb\r\nc\td\r\ne\tf"));
  EXPECT_EQ(found.pairs, (Pairs{{"a", "b"}, {"c", "d"}, {"e", "f"}}));
}

TEST(TsvPairs, AByteOrderMarkInsideTheFileIsPartOfTheText) {
  const Folder folder;
  EXPECT_EQ(read_tsv(write(folder, "x", "a\tb\n\ufeffc\td\n")).pairs,
            (Pairs{{"a", "b"}, {"\ufeffc", "d"}}));
}

TEST(TsvPairs, AnEmptyFileHasNoPairs) {
  const Folder folder;
  EXPECT_EQ(read_tsv(write(folder, "x", "")).report.pairs, 0);
  EXPECT_EQ(read_tsv(write(folder, "mark", "\xef\xbb\xbf")).pairs, Pairs{});
}

TEST(TsvPairs, FaultsAreCountedAndNamedWithFileAndLine) {
  const Folder folder;
  const std::string path =
      write(folder, "x", "a\tb\nno tab\nc\t \n\td\ncaf\xe9\tx\nno\n \n\ne\tf\n");
  const Found found = read_tsv(path);
  EXPECT_EQ(found.pairs, (Pairs{{"a", "b"}, {"e", "f"}}));
  EXPECT_EQ(count(found.report, PairFault::bad_utf8), 1);
  EXPECT_EQ(count(found.report, PairFault::empty_side), 2);
  EXPECT_EQ(count(found.report, PairFault::missing_tab), 2) << "blank lines are none";
  EXPECT_EQ(found.report.examples,
            (std::vector<std::string>{path + ":2: missing tab", path + ":3: empty side",
                                      path + ":4: empty side", path + ":5: bad UTF-8",
                                      path + ":6: missing tab"}));
}

TEST(TsvPairs, ABadPairIsRefusedByChoiceWithFileAndLine) {
  const Folder folder;
  const auto refuse = [](const std::string& path) {
    return [path] { read_tsv(path, OnBadPair::refuse); };
  };
  const std::string tab = write(folder, "tab", "a\tb\nc\n");
  expect_corrupt(tab, 4, "a tab between source and target in line 2", refuse(tab));
  const std::string empty = write(folder, "empty",
                                  "\xef\xbb\xbf"
                                  "a\tb\r\nc\td\r\n\te\r\n");
  expect_corrupt(empty, 13, "a text on both sides of the pair in line 3", refuse(empty));
  const std::string utf8 = write(folder, "utf8", "\xff\tb");
  expect_corrupt(utf8, 0, "valid UTF-8 in line 1", refuse(utf8));
  EXPECT_EQ(read_tsv(write(folder, "good", "a\tb\n"), OnBadPair::refuse).report.pairs, 1);
}

TEST(TsvPairs, ALongLineIsReadAndALongerOneRefused) {
  const Folder folder;
  const std::string half(kMostTextBytes - 2, 'x');
  const std::string most = "a\tb\n" + half + "\ty\n";
  const Found found = read_tsv(write(folder, "most", most + "c\td\n"));
  EXPECT_EQ(found.pairs, (Pairs{{"a", "b"}, {half, "y"}, {"c", "d"}}));
  for (const std::string end : {"\n", ""}) {
    const std::string path = write(folder, "more", "a\tb\n" + half + "\tyy" + end);
    expect_corrupt(path, 4, "at most 1048576 bytes in line 2", [&] { read_tsv(path); });
  }
}

TEST(TsvPairs, LinesAcrossTheEdgesOfPiecesStayWhole) {
  const Folder folder;
  std::string text;
  Pairs expected;
  for (std::size_t i = 0; text.size() < 300'000; ++i) {
    expected.emplace_back(std::to_string(i), std::string(1 + i % 997, 'z'));
    text += expected.back().first + "\t" + expected.back().second + "\n";
  }
  EXPECT_EQ(read_tsv(write(folder, "x", text)).pairs, expected);
  constexpr std::size_t kPiece = 65536;
  for (const std::size_t length : {kPiece - 1, kPiece, kPiece + 1}) {
    const std::string side(length - 2, 'z');
    EXPECT_EQ(read_tsv(write(folder, "edge", "a\t" + side + "\nb\tc\n")).pairs,
              (Pairs{{"a", side}, {"b", "c"}}));
  }
}

TEST(TsvPairs, PairsAreHandedOverBeforeTheRestIsRead) {
  const Folder folder;
  ASSERT_EQ(mkfifo(folder.path("pipe").c_str(), 0600), 0);
  std::promise<void> handed_over;
  bool in_time = false;
  std::jthread writer([&] {
    std::ofstream pipe(folder.path("pipe"));
    for (int i = 0; i < 100'000; ++i) pipe << "a\tb\n";
    pipe.flush();
    in_time =
        handed_over.get_future().wait_for(std::chrono::seconds(20)) == std::future_status::ready;
    pipe << "c\td\n";
  });
  std::int64_t seen = 0;
  read_tsv_pairs(folder.path("pipe"), OnBadPair::refuse, [&](const TextPair&) {
    if (++seen == 1) handed_over.set_value();
  });
  writer.join();
  EXPECT_EQ(seen, 100'001);
  EXPECT_TRUE(in_time);
}

TEST(TsvPairs, WhatCannotBeReadIsAnIoError) {
  const Folder folder;
  expect_missing(folder.path("none"), [&] { read_tsv(folder.path("none")); });
  EXPECT_THROW(read_tsv(folder.path()), IoError);
}

TEST(TsvPairs, WhatTheSinkThrowsComesOut) {
  const Folder folder;
  const std::string path = write(folder, "x", "a\tb\n");
  EXPECT_THROW(read_tsv_pairs(path, OnBadPair::skip, [](const TextPair&) { throw 7; }), int);
}

TEST(ParallelPairs, LineNBelongsToLineN) {
  const Folder folder;
  const Found found = read_parallel(write(folder, "en", "\xef\xbb\xbfone\ntwo\ttabs\r\n"),
                                    write(folder, "fr", "\xef\xbb\xbfun\r\ndeux"));
  EXPECT_EQ(found.pairs, (Pairs{{"one", "un"}, {"two tabs", "deux"}}));
}

TEST(ParallelPairs, AFaultIsNamedInTheFileThatHasIt) {
  const Folder folder;
  const std::string source = write(folder, "en", "a\n\nc\nd\n");
  const std::string target = write(folder, "fr", "A\nB\n\xff\nD\n");
  const Found found = read_parallel(source, target);
  EXPECT_EQ(found.pairs, (Pairs{{"a", "A"}, {"d", "D"}}));
  EXPECT_EQ(found.report.examples,
            (std::vector<std::string>{source + ":2: empty side", target + ":3: bad UTF-8"}));
  expect_corrupt(source, 2, "in line 2", [&] { read_parallel(source, target, OnBadPair::refuse); });
}

TEST(ParallelPairs, TheShorterFileIsNamedWithBothCounts) {
  const Folder folder;
  const std::string three = write(folder, "three", "a\nb\nc\n");
  const std::string five = write(folder, "five", "a\nb\nc\nd\ne");
  expect_corrupt(three, 6, "as many lines as " + five + " has (5), not 3",
                 [&] { read_parallel(three, five); });
  expect_corrupt(three, 6, "as many lines as " + five + " has (5), not 3",
                 [&] { read_parallel(five, three); });
}

TEST(ParallelPairs, AMissingFileIsAnIoErrorWithItsPath) {
  const Folder folder;
  const std::string there = write(folder, "there", "a\n"), none = folder.path("none");
  expect_missing(none, [&] { read_parallel(there, none); });
  expect_missing(none, [&] { read_parallel(none, there); });
}

}  // namespace tsv_pairs_test
