// Compiled gettext catalogues, written here byte by byte, and those of the system.

#include <gtest/gtest.h>

#include "pairs.h"
#include "text/pair_rules.h"

namespace gettext_pairs_test {

using namespace lockstep;
using namespace lockstep::text;
using namespace lockstep::tests;
using namespace std::string_literals;
using Examples = std::vector<std::string>;

constexpr std::uint64_t kTables = 28;  ///< where they begin
const std::pair<std::string, std::string> kUtf8 = {
    "", "Language: fr\nContent-Type: text/plain; charset=UTF-8\n"};

std::string number(std::uint32_t value, bool big_endian) {
  std::string bytes;
  for (const unsigned shift : {0U, 8U, 16U, 24U})
    bytes +=
        static_cast<char>(static_cast<unsigned char>(value >> (big_endian ? 24U - shift : shift)));
  return bytes;
}

struct Layout {
  bool big_endian = false;
  std::uint32_t revision = 0;
};

/// Header, table of originals, table of translations, then the texts in the order of the tables.
std::string mo(const Pairs& messages, Layout layout = {}) {
  const auto count = static_cast<std::uint32_t>(messages.size());
  const auto write = [&](std::uint32_t value) { return number(value, layout.big_endian); };
  std::string tables[2], texts;
  const auto add = [&](std::string& table, const std::string& text) {
    table += write(static_cast<std::uint32_t>(text.size())) +
             write(static_cast<std::uint32_t>(kTables + 16 * count + texts.size()));
    texts += text + '\0';
  };
  for (const auto& message : messages) add(tables[0], message.first);
  for (const auto& message : messages) add(tables[1], message.second);
  return write(0x950412de) + write(layout.revision) + write(count) + write(kTables) +
         write(kTables + 8 * count) + write(0) + write(0) + tables[0] + tables[1] + texts;
}

class GettextPairs : public testing::Test {
 protected:
  PairReport read(const std::string& bytes, OnBadPair on_bad = OnBadPair::skip) {
    pairs.clear();
    return read_gettext_pairs(write(folder, "x.mo", bytes), on_bad, into(pairs));
  }

  /// Refused whatever is to become of bad pairs.
  void expect_refused(const std::string& bytes, std::uint64_t offset, const std::string& what) {
    expect_corrupt(path, offset, what, [&] { read(bytes, OnBadPair::skip); });
  }

  const Folder folder;
  const std::string path = folder.path("x.mo");
  Pairs pairs;
};

TEST_F(GettextPairs, MessagesAndTranslationsAreReadInBothByteOrders) {
  for (const bool big_endian : {false, true})
    for (const std::uint32_t revision : {0U, 1U, 0x10000U, 0x10001U}) {
      const PairReport report =
          read(mo({kUtf8, {"File", "Fichier"}, {"Open\n  it", "L\u2019ouvrir\u00a0!"}},
                  {big_endian, revision}),
               OnBadPair::refuse);
      EXPECT_EQ(pairs, (Pairs{{"File", "Fichier"}, {"Open it", "L\u2019ouvrir\u00a0!"}}));
      EXPECT_EQ(report.pairs, 2);
    }
}

TEST_F(GettextPairs, TheHeaderAndWhatIsNotTranslatedAreNeitherPairsNorFaults) {
  const PairReport report =
      read(mo({kUtf8, {"Open", ""}, {"\n  ", "\n"}, {"day\0days"s, "\0"s}}), OnBadPair::refuse);
  EXPECT_EQ(pairs, Pairs{});
  EXPECT_EQ(report.examples, Examples{});
}

TEST_F(GettextPairs, TheContextIsNoPartOfTheMessage) {
  read(mo({kUtf8, {"menu\4Open", "Ouvrir"}, {"n\4day\0days"s, "jour\0jours"s}}));
  EXPECT_EQ(pairs, (Pairs{{"Open", "Ouvrir"}, {"day", "jour"}, {"days", "jours"}}));
}

TEST_F(GettextPairs, SingularGoesWithForm0AndPluralWithForm1OrTheOnlyOne) {
  read(mo({kUtf8, {"day\0days"s, "dzien\0dni\0dnia"s}}));
  EXPECT_EQ(pairs, (Pairs{{"day", "dzien"}, {"days", "dni"}}));
  read(mo({kUtf8, {"%d day\0%d days"s, "%d nichi"}}));
  EXPECT_EQ(pairs, (Pairs{{"%d day", "%d nichi"}, {"%d days", "%d nichi"}}));
  read(mo({kUtf8, {"day\0days"s, "jour\0"s}}));
  EXPECT_EQ(pairs, (Pairs{{"day", "jour"}}));
}

TEST_F(GettextPairs, AnotherCharsetIsConverted) {
  read(mo({{"", "Content-Type: text/plain; charset=ISO-8859-1\n"}, {"coffee", "caf\xe9"}}));
  EXPECT_EQ(pairs, (Pairs{{"coffee", "caf\u00e9"}}));
  read(mo({{"", "Content-Type: text/plain; charset=EUC-JP\n"}, {"Japan", "\xc6\xfc\xcb\xdc"}}));
  EXPECT_EQ(pairs, (Pairs{{"Japan", "\u65e5\u672c"}}));
  read(mo({{"coffee", "caf\u00e9"}}));  // no header
  EXPECT_EQ(pairs, (Pairs{{"coffee", "caf\u00e9"}}));
}

TEST_F(GettextPairs, AnUnknownCharsetIsNamed) {
  expect_refused(mo({{"", "Content-Type: text/plain; charset=MOON-1\n"}, {"a", "b"}}), 0,
                 "a charset that iconv knows, not \"MOON-1\"");
}

TEST_F(GettextPairs, FaultsAreCountedAndNamedByMessage) {
  const std::string bytes = mo({kUtf8, {"a", "caf\xe9"}, {"b", " "}, {"c", "d"}, {"x\4", "e"}});
  const PairReport report = read(bytes);
  EXPECT_EQ(pairs, (Pairs{{"c", "d"}}));
  EXPECT_EQ(count(report, PairFault::bad_utf8), 1);
  EXPECT_EQ(count(report, PairFault::empty_side), 1);
  EXPECT_EQ(report.examples,
            (Examples{path + ": message 2: bad UTF-8", path + ": message 3: empty side"}));
  expect_corrupt(path, kTables + 5 * 16 + 1, "valid UTF-8 in message 2",
                 [&] { read(bytes, OnBadPair::refuse); });
  const PairReport japanese =
      read(mo({{"", "charset=EUC-JP"}, {"a", "\xc6"}, {"b", "\xff\xff"}, {"c", "d"}}));
  EXPECT_EQ(count(japanese, PairFault::bad_utf8), 2);
  EXPECT_EQ(pairs, (Pairs{{"c", "d"}}));
}

TEST_F(GettextPairs, ABadTextDoesNotChangeHowTheNextIsConverted) {
  const std::string switched = "\x1b$B";  // from here on, Japanese
  read(mo({{"", "charset=ISO-2022-JP"},
           {"a", switched + "F|\xff"},
           {"b", "F|"},
           {"c", switched + "F|\x1b(B"}}));
  EXPECT_EQ(pairs, (Pairs{{"b", "F|"}, {"c", "\u65e5"}}));
}

TEST_F(GettextPairs, WhatIsNoCatalogueIsCorrupt) {
  for (const std::string bytes : {"", "\xde\x12", "msgid \"\"\nmsgstr \"\"\n"})
    expect_refused(bytes, 0, "a compiled gettext catalogue");
  expect_refused(mo({kUtf8}, {false, 0x20000}), 4, "revision 0 or 1 of the format, not 2.0");
  expect_refused(mo({kUtf8}, {true, 2}), 4, "not 0.2");
}

TEST_F(GettextPairs, EveryBeginningOfACatalogueIsCorrupt) {
  for (const bool big_endian : {false, true}) {
    const std::string whole = mo({kUtf8, {"a", "b"}, {"day\0days"s, "jour\0jours"s}}, {big_endian});
    for (std::size_t length = 0; length < whole.size(); ++length)
      EXPECT_THROW(read(whole.substr(0, length)), CorruptFile) << length;
  }
}

TEST_F(GettextPairs, EveryOffsetAndLengthIsChecked) {
  const std::string good = mo({kUtf8, {"a", "b"}});
  const auto with = [&](std::size_t at, std::uint32_t value) {
    return std::string(good).replace(at, 4, number(value, false));
  };
  for (const std::uint32_t huge : {0xffffffffU, 0x80000000U, 0x20000000U}) {
    expect_refused(with(8, huge), 8, "a table of " + std::to_string(huge) + " messages");
    expect_refused(with(12, huge), 8, "a table of 2 messages");
    expect_refused(with(16, huge), 8, "a table of 2 messages");
    expect_refused(with(kTables + 8, huge), kTables, "not longer in all than the file");
    expect_refused(with(kTables + 12, huge), huge, "a text of 1 bytes, and a zero after it");
    expect_refused(with(kTables + 28, huge), huge, "a text of 1 bytes, and a zero after it");
  }
  const std::size_t first = kTables + 2 * 16;
  expect_refused(with(kTables + 8, 2), first + 1, "a text of 2 bytes, and a zero after it");
}

TEST_F(GettextPairs, ATextMayNotBeEndlessNorNamedWithoutEnd) {
  const std::string most(kMostTextBytes, 'x');
  read(mo({kUtf8, {"a", most}}));
  EXPECT_EQ(pairs, (Pairs{{"a", most}}));
  expect_refused(mo({{"a", most + "x"}}), kTables + 16 + 2, "messages of at most 1048576 bytes");

  const std::string text(1000, 'y');
  Pairs messages(100, {"a", ""});
  messages[0].second = text;
  std::string bytes = mo(messages);
  const std::size_t table = kTables + 8 * 100;
  for (std::size_t i = 1; i < 100; ++i) bytes.replace(table + 8 * i, 8, bytes.substr(table, 8));
  expect_refused(bytes, kTables, "not longer in all than the file");
}

TEST_F(GettextPairs, AFolderIsReadByName) {
  write(folder, "b.mo", mo({kUtf8, {"3", "4"}}));
  write(folder, "a.mo", mo({kUtf8, {"1", "2"}, {"x", " "}}));
  write(folder, "a.po", "not compiled");
  const PairReport report = read_gettext_pairs(folder.path(), OnBadPair::skip, into(pairs));
  EXPECT_EQ(pairs, (Pairs{{"1", "2"}, {"3", "4"}}));
  EXPECT_EQ(report.pairs, 2);
  EXPECT_EQ(report.examples, (Examples{folder.path("a.mo") + ": message 3: empty side"}));
}

TEST_F(GettextPairs, AFolderWithoutAnyIsAConfigErrorAndAMissingFileAnIoError) {
  EXPECT_THROW(read_gettext_pairs(folder.path(), OnBadPair::skip, into(pairs)), ConfigError);
  expect_missing(path, [&] { read_gettext_pairs(path, OnBadPair::skip, into(pairs)); });
}

}  // namespace gettext_pairs_test
