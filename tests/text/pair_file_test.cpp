// Pair files: written, mapped, torn and altered.

#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <lockstep/text/pair_file.h>

#include <bit>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include "base/system_call.h"
#include "folder.h"

namespace pair_file_test {

using namespace lockstep;
using namespace lockstep::text;
using Tokens = std::vector<std::int32_t>;
using Pairs = std::vector<std::pair<Tokens, Tokens>>;
namespace fs = std::filesystem;

class PairFiles : public testing::Test {
 protected:
  std::string write(const Pairs& pairs, const std::string& key = "key") const {
    PairFileWriter writer(path(), key);
    for (const auto& [source, target] : pairs) writer.add({source, target});
    writer.finish();
    return path();
  }

  std::string path() const { return folder_.path("pairs"); }
  std::string aside() const { return path() + ".new"; }

  std::string bytes() const {
    std::ostringstream all;
    all << std::ifstream(path(), std::ios::binary).rdbuf();
    return all.str();
  }

  void put(const std::string& content) const {
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << content;
  }

  /// The file with the number at `offset` replaced.
  static std::string with(std::string file, std::size_t offset, std::uint64_t number) {
    std::memcpy(file.data() + offset, &number, sizeof number);
    return file;
  }

  void expect_corrupt(const std::string& content, std::optional<std::uint64_t> offset = {}) const {
    put(content);
    try {
      const PairFile file(path());
      ADD_FAILURE() << "was opened, with " << file.size() << " pairs";
    } catch (const CorruptFile& error) {
      EXPECT_EQ(error.path, path());
      EXPECT_EQ(error.offset, offset.value_or(error.offset)) << error.what();
    }
  }

 private:
  const tests::Folder folder_;
};

Pairs read(const PairFile& file) {
  Pairs pairs;
  for (std::int64_t i = 0; i < file.size(); ++i)
    pairs.emplace_back(Tokens(file[i].source.begin(), file[i].source.end()),
                       Tokens(file[i].target.begin(), file[i].target.end()));
  return pairs;
}

/// Sequences of many lengths, some longer than the writer's buffer.
Pairs uneven_pairs() {
  Pairs pairs;
  for (const std::size_t length : {1U, 2U, 7U, 1000U, 70'000U, 200'001U, 3U}) {
    Tokens source(length), target(length / 2);
    for (std::size_t i = 0; i < length; ++i) source[i] = static_cast<std::int32_t>(i * 31 + length);
    for (std::size_t i = 0; i < length / 2; ++i) target[i] = source[length - 1 - i];
    pairs.emplace_back(std::move(source), std::move(target));
  }
  return pairs;
}

TEST_F(PairFiles, PairsAndKeyComeBack) {
  const PairFile file(write(uneven_pairs(), "made of: a, b"));
  EXPECT_EQ(read(file), uneven_pairs());
  EXPECT_EQ(file.key(), "made of: a, b");
}

TEST_F(PairFiles, AFileWithoutPairsAndWithoutKeyComesBack) {
  const PairFile file(write({}, ""));
  EXPECT_EQ(file.size(), 0);
  EXPECT_EQ(file.key(), "");
}

TEST_F(PairFiles, TheBytesAreThoseOfTheFormat) {
  write({{{5, 6}, {7}}, {{8}, {}}}, "abc");
  const std::uint64_t head[] = {1, 3, 4, 2};  // version, bytes of the key, tokens, pairs
  const std::int32_t tokens[] = {5, 6, 7, 8};
  const std::uint64_t begins[] = {0, 2, 3, 4, 4};
  const auto raw = [](const auto& array) {
    return std::string(reinterpret_cast<const char*>(array), sizeof array);
  };
  EXPECT_EQ(bytes(),
            "LOCKPAIR" + raw(head) + std::string("abc\0\0\0\0\0", 8) + raw(tokens) + raw(begins));
}

TEST_F(PairFiles, NothingAppearsWithoutFinish) {
  {
    PairFileWriter writer(path(), "key");
    writer.add({Tokens{1}, Tokens{2}});
    EXPECT_TRUE(fs::exists(aside()));
  }
  EXPECT_FALSE(fs::exists(path()));
  EXPECT_FALSE(fs::exists(aside()));
}

TEST_F(PairFiles, TheOldFileStaysUntilFinish) {
  write({{{1}, {2}}}, "old");
  const PairFile old(path());
  {
    PairFileWriter writer(path(), "new");
    EXPECT_EQ(PairFile(path()).key(), "old");
    writer.finish();
  }
  EXPECT_EQ(PairFile(path()).key(), "new");
  EXPECT_EQ(read(old), (Pairs{{{1}, {2}}})) << "a mapping outlives the name";
  EXPECT_FALSE(fs::exists(aside()));
}

TEST_F(PairFiles, CopiesShareTheMappingAndKeepIt) {
  std::optional<PairFile> first(write({{{1, 2}, {3}}}));
  const PairFile second = *first;
  EXPECT_EQ((*first)[0].source.data(), second[0].source.data());
  first.reset();
  EXPECT_EQ(read(second), (Pairs{{{1, 2}, {3}}}));
}

TEST_F(PairFiles, ThreadsReadTheSame) {
  const PairFile file(write(uneven_pairs()));
  std::vector<Pairs> found(4);
  {
    std::vector<std::jthread> threads;
    for (Pairs& each : found) threads.emplace_back([&] { each = read(file); });
  }
  for (const Pairs& each : found) EXPECT_EQ(each, uneven_pairs());
}

TEST_F(PairFiles, AFullDiskIsAnIoErrorAndLeavesNothing) {
  const base::ScopedFaults full([](const char* call, const std::string&) {
    return std::string_view(call) == "write" ? ENOSPC : 0;
  });
  EXPECT_THROW(write({{{1}, {2}}}), IoError);
  EXPECT_FALSE(fs::exists(path()));
  EXPECT_FALSE(fs::exists(aside()));
}

TEST_F(PairFiles, AFileOfTheUsersThatHasTheNameToBeWrittenAsideStays) {
  std::ofstream(aside()) << "mine";
  EXPECT_EQ(read(PairFile(write({{{1}, {2}}}))), (Pairs{{{1}, {2}}}));
  std::string found;
  std::ifstream(aside()) >> found;
  EXPECT_EQ(found, "mine");
}

TEST_F(PairFiles, AFolderThatIsNotThereIsAnIoError) {
  EXPECT_THROW(PairFileWriter(path() + "/none/pairs", ""), IoError);
  EXPECT_THROW(PairFile{path()}, IoError);
  EXPECT_THROW(PairFile{fs::path(path()).parent_path()}, IoError);
}

TEST_F(PairFiles, EveryTornFileIsRefused) {
  write({{{5, 6}, {7}}, {{8}, {9, 10}}}, "abc");
  const std::string whole = bytes();
  for (std::size_t size = 0; size < whole.size(); ++size) expect_corrupt(whole.substr(0, size));
  expect_corrupt(whole + '\0');
  expect_corrupt(whole.substr(0, 40), 16);
}

TEST_F(PairFiles, AlteredHeadsAreRefused) {
  write({{{5, 6}, {7}}, {{8}, {9, 10}}}, "abc");
  const std::string whole = bytes();
  expect_corrupt(with(whole, 0, 0), 0);
  expect_corrupt(with(whole, 8, 2), 8);
  for (const std::size_t count : {16U, 24U, 32U})
    for (const std::uint64_t number :
         {std::uint64_t{0}, std::uint64_t{100}, std::uint64_t{1} << 61U, std::uint64_t{1} << 62U,
          std::uint64_t{1} << 63U, ~std::uint64_t{0}})
      expect_corrupt(with(whole, count, number), 16);
}

TEST_F(PairFiles, AlteredBeginsAreRefusedWhereTheyAre) {
  write({{{5, 6}, {7}}, {{8}, {9, 10}}}, "abc");
  const std::string whole = bytes();
  const std::size_t begins = whole.size() - 5 * 8;  // 0 2 3 4 6
  expect_corrupt(with(whole, begins, 1), begins);
  expect_corrupt(with(whole, begins + 8, 0), begins + 8);  // a source without tokens
  expect_corrupt(with(whole, begins + 8, 4), begins + 16);
  expect_corrupt(with(whole, begins + 8, ~std::uint64_t{0}), begins + 16);
  expect_corrupt(with(whole, begins + 16, ~std::uint64_t{0}), begins + 24);
  expect_corrupt(with(whole, begins + 32, 7), begins + 32);
  expect_corrupt(with(whole, begins + 32, 5), begins + 32);
}

TEST_F(PairFiles, PairsThatAreNotThereAndSourcesWithoutTokensAreRefused) {
  const PairFile file(write({{{1}, {2}}}));
  EXPECT_THROW(file[1], std::logic_error);
  EXPECT_THROW(file[-1], std::logic_error);
  PairFileWriter writer(path(), "");
  EXPECT_THROW(writer.add({{}, Tokens{1}}), std::logic_error);
}

TEST_F(PairFiles, AMillionPairsComeBack) {
  constexpr std::int32_t kPairs = 1'000'000;
  {
    PairFileWriter writer(path(), "million");
    Tokens source(8), target(9);
    for (std::int32_t i = 0; i < kPairs; ++i) {
      source.front() = i;
      target.back() = -i;
      writer.add({std::span(source).first(static_cast<std::size_t>(1 + i % 8)), target});
    }
    writer.finish();
  }
  const PairFile file(path());
  ASSERT_EQ(file.size(), kPairs);
  std::int32_t wrong = 0;
  for (std::int32_t i = 0; i < kPairs; ++i) {
    const TokenPair pair = file[i];
    if (pair.source.size() != static_cast<std::size_t>(1 + i % 8) || pair.target.size() != 9 ||
        pair.source.front() != i || pair.target.back() != -i)
      ++wrong;
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace pair_file_test
