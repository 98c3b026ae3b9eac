// Preparing a corpus: read once, split, tokens learned, both parts as files of tokens.

#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <lockstep/text/corpus.h>

#include <algorithm>
#include <map>
#include <set>

#include "folder.h"

namespace corpus_test {

using namespace lockstep;
using namespace lockstep::text;
namespace fs = std::filesystem;
using Texts = std::vector<std::pair<std::string, std::string>>;

/// A reader of pairs in memory that counts how often it is called.
struct Memory {
  Texts texts;
  int reads = 0;

  PairReader reader() {
    return [this](OnBadPair, const PairSink& sink) {
      ++reads;
      PairReport report;
      for (const auto& [source, target] : texts) {
        sink({source, target});
        ++report.pairs;
      }
      return report;
    };
  }
};

Texts numbered(int count) {
  Texts texts;
  for (int i = 0; i < count; ++i)
    texts.emplace_back("question " + std::to_string(i), "answer " + std::to_string(i * 7));
  return texts;
}

/// The pairs of a file of tokens, as texts.
Texts decoded(const PairFile& file, const Tokenizer& tokens) {
  Texts texts;
  for (std::int64_t i = 0; i < file.size(); ++i)
    texts.emplace_back(tokens.decode(file[i].source), tokens.decode(file[i].target));
  return texts;
}

class CorpusOf : public testing::Test {
 protected:
  CorpusOptions characters() const { return {.tokens = TokenKind::characters, .vocabulary = 100}; }
  std::string folder() const { return folder_.path(); }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder())) names.push_back(entry.path());
    return names;
  }

 private:
  tests::Folder folder_;
};

TEST_F(CorpusOf, PairsIsReadOnceAndKeepsTheirOrder) {
  Memory all{numbered(200)};
  const Corpus corpus = prepare_corpus({.train = all.reader()}, characters(), folder());
  EXPECT_EQ(all.reads, 1);
  EXPECT_EQ(decoded(corpus.train, *corpus.tokens), all.texts);
  EXPECT_EQ(corpus.test.size(), 0);
  ASSERT_TRUE(corpus.report);
  EXPECT_EQ(corpus.report->pairs, 200);
  EXPECT_EQ(files().size(), 2U);  // what waited for its tokens has no name
}

TEST_F(CorpusOf, PairsHoldsOutSourcesByTheirHash) {
  Memory all{numbered(400)};
  for (int i = 0; i < 50; ++i)
    all.texts.emplace_back(all.texts[static_cast<std::size_t>(i)].first, "other");
  CorpusOptions options = characters();
  options.held_out = 0.25;
  const Corpus corpus = prepare_corpus({.train = all.reader()}, options, folder());
  Texts train, test;
  for (const auto& pair : all.texts)
    (static_cast<double>(text_hash(pair.first)) < 0.25 * 0x1p64 ? test : train).push_back(pair);
  EXPECT_GT(test.size(), 60U);
  EXPECT_EQ(decoded(corpus.train, *corpus.tokens), train);
  EXPECT_EQ(decoded(corpus.test, *corpus.tokens), test);
}

TEST_F(CorpusOf, PairsLearnsFromThoseToTrainOnOnly) {
  Memory train{{{"abc", "cba"}}}, test{{{"xyz", "zyx"}}};
  const Corpus corpus =
      prepare_corpus({.train = train.reader(), .test = test.reader()}, characters(), folder());
  EXPECT_EQ(corpus.tokens->size(), kFirstOwnToken + 3);
  EXPECT_EQ(corpus.test.size(), 1);
  for (const std::int32_t token : corpus.test[0].source) EXPECT_EQ(token, kUnknown);
}

TEST_F(CorpusOf, PairsCountsAPairOnceIfAsked) {
  Memory all{{{"a", "b"}, {"a", "c"}, {"a", "b"}}};
  CorpusOptions options = characters();
  EXPECT_EQ(prepare_corpus({.train = all.reader()}, options, folder()).train.size(), 2);
  options.unique = false;
  EXPECT_EQ(prepare_corpus({.train = all.reader()}, options, folder()).train.size(), 3);
}

TEST_F(CorpusOf, PairsWithTokensAndFilesThereReadsNothing) {
  Memory all{numbered(20)};
  const CorpusPairs pairs{.train = all.reader(), .kind = "k", .files = "f"};
  const Corpus first = prepare_corpus(pairs, characters(), folder());
  const Corpus second = prepare_corpus(pairs, characters(), folder(), first.tokens);
  EXPECT_EQ(all.reads, 1);
  EXPECT_FALSE(second.report);
  EXPECT_EQ(decoded(second.train, *second.tokens), all.texts);
}

TEST_F(CorpusOf, PairsThatChangedIsMadeAnewWithTheSameTokens) {
  Memory all{numbered(20)};
  const Corpus first =
      prepare_corpus({.train = all.reader(), .files = "f"}, characters(), folder());
  all.texts.pop_back();
  const Corpus second =
      prepare_corpus({.train = all.reader(), .files = "g"}, characters(), folder(), first.tokens);
  EXPECT_EQ(all.reads, 2);
  EXPECT_TRUE(second.report);
  EXPECT_EQ(second.train.size(), 19);
  EXPECT_EQ(second.tokens, first.tokens);
}

TEST_F(CorpusOf, PairsIsTheSameFromItsTokensAsFromItsTexts) {
  Memory all{numbered(300)};
  const CorpusPairs pairs{.train = all.reader(), .files = "f"};
  const Corpus learned = prepare_corpus(pairs, characters(), folder());
  const auto names = files();
  std::map<std::string, std::string> before;
  const auto content = [](const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  for (const std::string& name : names) before[name] = content(name);
  for (const std::string& name : names) fs::remove(name);
  prepare_corpus(pairs, characters(), folder(), learned.tokens);
  for (const auto& [name, bytes] : before) EXPECT_EQ(content(name), bytes) << name;
}

TEST_F(CorpusOf, PairsLearnsFromASampleOfMany) {
  Memory all{numbered(2000)};
  CorpusOptions options = characters();
  options.most_texts = 100;
  std::int64_t learned_from = 0, encoded = 0;
  const auto progress = [&](CorpusStage stage, std::int64_t count) {
    if (stage == CorpusStage::learning) learned_from = count;
    if (stage == CorpusStage::encoding) encoded = count;
  };
  const CorpusPairs pairs{.train = all.reader()};
  const Corpus first = prepare_corpus(pairs, options, folder(), nullptr, progress);
  EXPECT_EQ(learned_from, 100);
  EXPECT_EQ(encoded, 2000);
  EXPECT_EQ(prepare_corpus(pairs, options, folder()).tokens->bytes(), first.tokens->bytes());
}

TEST_F(CorpusOf, NothingIsRefused) {
  Memory none, one{{{"a", "b"}}};
  EXPECT_THROW(prepare_corpus({.train = none.reader()}, characters(), folder()), ConfigError);
  CorpusOptions options = characters();
  options.held_out = 0.999999999;
  EXPECT_THROW(prepare_corpus({.train = one.reader()}, options, folder()), ConfigError);
  const auto tokens = prepare_corpus({.train = one.reader()}, characters(), folder()).tokens;
  EXPECT_THROW(
      prepare_corpus({.train = none.reader(), .files = "g"}, characters(), folder(), tokens),
      ConfigError);
}

TEST_F(CorpusOf, PairsInAFolderThatIsNotThereIsAnIoError) {
  Memory all{numbered(3)};
  EXPECT_THROW(prepare_corpus({.train = all.reader()}, characters(), folder() + "/none"), IoError);
}

TEST_F(CorpusOf, PairsPassesOnWhatToDoWithBadOnes) {
  std::ofstream(folder() + "/pairs.tsv") << "a\tb\nno tab\n";
  const CorpusPairs pairs{.train =
                              [&](OnBadPair on_bad, const PairSink& sink) {
                                return read_tsv_pairs(folder() + "/pairs.tsv", on_bad, sink);
                              },
                          .files = file_times(folder() + "/pairs.tsv")};
  const Corpus corpus = prepare_corpus(pairs, characters(), folder());
  EXPECT_EQ(corpus.report->bad[static_cast<std::size_t>(PairFault::missing_tab)], 1);
  CorpusOptions strict = characters();
  strict.on_bad = OnBadPair::refuse;
  EXPECT_THROW(prepare_corpus(pairs, strict, folder()), CorruptFile);
}

TEST_F(CorpusOf, FilesKnowsTheirSizes) {
  const std::string path = folder() + "/a";
  std::ofstream(path) << "1";
  const std::string before = file_times(folder());
  std::ofstream(path) << "22";
  EXPECT_NE(file_times(folder()), before);
  EXPECT_EQ(file_times(""), "");
  EXPECT_EQ(file_times("nowhere"), "nowhere");
}

TEST(TextHash, IsTheSameOnEveryMachine) {
  EXPECT_EQ(text_hash(""), 0xecba3df2c3383c52U);
  EXPECT_EQ(text_hash("question 1"), 0x9cb272a11ab8bcfdU);
}

}  // namespace corpus_test
