// What an evaluation of texts says: on a model that copies its source, so that all is known.

#include <gtest/gtest.h>
#include <lockstep/text/evaluation.h>

#include <cmath>

#include "folder.h"

namespace copying {

using namespace lockstep;
using namespace lockstep::text;

/// A model whose text is the source.
struct Copier {};

class Copy : public TokenModel {
 public:
  explicit Copy(torch::Tensor source) : source_(std::move(source)) {}
  std::int64_t rows() const override { return source_.size(0); }
  torch::Tensor next(const torch::Tensor&) override {
    const torch::Tensor column =
        at_ < source_.size(1) ? source_.select(1, at_) : torch::full({rows()}, kPad, torch::kInt64);
    const torch::Tensor wanted =
        torch::where(column == kPad, torch::full_like(column, kEnd), column);
    ++at_;
    return torch::full({rows(), 100}, -50.0).scatter_(1, wanted.unsqueeze(1), 0.0);
  }
  void select(const torch::Tensor& rows) override { source_ = source_.index_select(0, rows); }
  torch::Tensor attention() const override {
    return torch::full({rows(), source_.size(1)}, 1.0 / static_cast<double>(source_.size(1)));
  }

 private:
  torch::Tensor source_;
  std::int64_t at_ = 0;
};

/// 2 a row.
Loss sequence_loss(Copier&, const SequenceBatch& batch) {
  const auto rows = static_cast<double>(batch.source.size(0));
  return {torch::tensor(2 * rows), rows};
}

std::unique_ptr<TokenModel> token_model(Copier&, const torch::Tensor& source,
                                        const torch::Tensor&) {
  return std::make_unique<Copy>(source);
}

}  // namespace copying

namespace evaluation_test {

using namespace lockstep;
using namespace lockstep::text;
using copying::Copier;
using Tokens = std::vector<std::int32_t>;

/// Letters as tokens: "a" is 4.
class Letters : public Tokenizer {
 public:
  std::int64_t size() const override { return 100; }
  Tokens encode(std::string_view text) const override {
    Tokens tokens;
    for (const char letter : text)
      if (letter != ' ') tokens.push_back(letter - 'a' + kFirstOwnToken);
    return tokens;
  }
  std::string decode(std::span<const std::int32_t> tokens) const override {
    std::string text;
    for (const std::int32_t token : tokens) text += (text.empty() ? "" : " ") + piece(token);
    return text;
  }
  std::string piece(std::int32_t token) const override {
    return {static_cast<char>('a' + token - kFirstOwnToken)};
  }
  std::string bytes() const override { return ""; }
};

class TextEvaluation : public testing::Test {
 protected:
  using Texts = std::vector<std::pair<std::string, std::string>>;

  PairFile file_of(const Texts& texts) const {
    PairFileWriter writer(folder_.path("pairs"), "");
    for (const auto& [source, target] : texts) {
      const Tokens from = letters_->encode(source), to = letters_->encode(target);
      writer.add({from, to});
    }
    writer.finish();
    return PairFile(folder_.path("pairs"));
  }

  /// All batches of the pairs, in the order of the file.
  Evaluated evaluate(const Texts& texts, EvaluationOptions options, std::int64_t rows = 2) const {
    const PairFile pairs = file_of(texts);
    const BucketedPairs batches(
        pairs, {.buckets = {{4, 6}, {8, 10}}, .batch_rows = rows, .shuffle = false});
    options.batch_rows = rows;
    const Evaluator evaluator(letters_, pairs, batches.buckets(), options);
    Evaluated result;
    Copier model;
    for (std::int64_t i = 0; i < batches.size(); ++i) result += evaluator(model, batches.at(0, i));
    return result;
  }

  std::shared_ptr<const Letters> letters_ = std::make_shared<const Letters>();

 private:
  tests::Folder folder_;
};

TEST_F(TextEvaluation, AnswersKnowTheTargetsOfASource) {
  const Answers answers(file_of({{"ab", "c"}, {"ab", "d"}, {"e", "f"}}));
  const auto tokens = [&](const char* text) { return letters_->encode(text); };
  EXPECT_TRUE(answers.has(tokens("ab"), tokens("c")));
  EXPECT_TRUE(answers.has(tokens("ab"), tokens("d")));
  EXPECT_FALSE(answers.has(tokens("ab"), tokens("f")));
  EXPECT_FALSE(answers.has(tokens("x"), tokens("c")));
  EXPECT_EQ(answers.weight(tokens("ab")), 0.5);
  EXPECT_EQ(answers.weight(tokens("e")), 1);
  EXPECT_EQ(answers.weight(tokens("x")), 1);
}

TEST_F(TextEvaluation, AnswersAreCutAsBatchesAre) {
  const Answers answers(file_of({{"abcdef", "ghijkl"}}), Bucket{3, 4});
  EXPECT_TRUE(answers.has(letters_->encode("abc"), letters_->encode("ghi")));
  EXPECT_FALSE(answers.has(letters_->encode("abcdef"), letters_->encode("ghijkl")));
}

TEST_F(TextEvaluation, EachSourceCountsOnceForExactMatches) {
  // The first source has two targets, one of which the model finds; the second has another.
  const Evaluated result = evaluate({{"ab", "ab"}, {"ab", "c"}, {"e", "f"}}, {});
  EXPECT_EQ(result.metrics.at("exact").value(), 0.5);
  EXPECT_EQ(result.metrics.at("exact").weight, 2);
}

TEST_F(TextEvaluation, BleuOfACopyIsBleuOfCopying) {
  const Evaluated result = evaluate({{"abcdef", "abcdef"}, {"abcdef", "abcxef"}}, {});
  const Summary with = summarise(result), without = summarise(result, false);
  EXPECT_GT(with.metrics.at("bleu"), 50);
  EXPECT_EQ(with.metrics.at("bleu"), with.metrics.at("bleu_of_copying"));
  EXPECT_FALSE(without.metrics.contains("bleu"));
}

TEST_F(TextEvaluation, LossAndPerplexityAreOfAllAndOfEachBucket) {
  const Summary made = summarise(evaluate({{"a", "b"}, {"abcdef", "b"}}, {.decoded = 0}));
  EXPECT_EQ(made.metrics.at("loss"), 2);
  for (const char* name : {"perplexity", "perplexity/4-6", "perplexity/8-10"})
    EXPECT_EQ(made.metrics.at(name), std::exp(2.0)) << name;
  EXPECT_FALSE(made.metrics.contains("exact"));
  EXPECT_TRUE(made.texts.empty());
  EXPECT_TRUE(made.images.empty());
}

TEST_F(TextEvaluation, AsManyTextsAreDecodedAsAskedFor) {
  const Texts texts = {{"a", "a"}, {"b", "b"}, {"c", "c"}, {"d", "d"}, {"e", "e"}};
  for (const std::int64_t decoded : {1, 3, 5, 9})
    EXPECT_EQ(evaluate(texts, {.decoded = decoded}).metrics.at("exact").weight,
              static_cast<double>(std::min<std::int64_t>(decoded, 5)));
}

TEST_F(TextEvaluation, TheFirstFewTextsAreSamplesAndTheFirstIsDrawn) {
  const Evaluated result = evaluate(
      {{"a", "b"}, {"c", "d"}, {"e", "f"}, {"g", "h"}, {"i", "j"}, {"k", "l"}, {"m", "n"}}, {});
  ASSERT_EQ(result.samples.size(), 5U);
  EXPECT_EQ(result.samples[1].source, "c");
  EXPECT_EQ(result.samples[1].target, "d");
  EXPECT_EQ(result.samples[1].decoded, "c");
  const Summary made = summarise(result);
  EXPECT_NE(made.texts.at("samples").find("- source: a\n  decoded: a\n  data: b\n"),
            std::string::npos);
  EXPECT_TRUE(made.images.contains("attention"));
}

TEST_F(TextEvaluation, ABeamOfOneIsGreedyAndAWiderOneASearch) {
  const torch::Tensor source = torch::tensor({{4, 5, 6}}, torch::kInt64);
  for (const int width : {1, 3}) {
    copying::Copy model(source);
    const auto found = search(model, {.width = width, .best = width});
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].front().tokens, (Tokens{4, 5, 6}));
    EXPECT_EQ(found[0].size(), static_cast<std::size_t>(width));
  }
}

}  // namespace evaluation_test
