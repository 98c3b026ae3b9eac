// Tokenizers: texts that come back, vocabularies, bytes. The program is linked with LibTorch, which
// brings a protobuf of its own, as SentencePiece does.

#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <lockstep/text/tokens.h>
#include <torch/torch.h>

#include <algorithm>
#include <numeric>
#include <thread>

#include "text/tokens.h"

namespace tokens_test {

using namespace lockstep;
using namespace lockstep::text;
using Texts = std::vector<std::string>;
using Tokens = std::vector<std::int32_t>;

const Texts kFrench = {
    "Où est passé le fichier que l’été dernier nous avions déjà copié ?",
    "Impossible d'ouvrir « naïve.txt » : le disque est plein.",
    "Ça alors ! L'œuvre de Noël coûte 3,50 €, n’est-ce pas…",
    "Les élèves étaient là-bas ; où étaient les maîtres ?",
    "No-break space\u00a0! Et une ligature ﬁne, et ½ heure.",
};
const Texts kChinese = {
    "你好，你叫什么名字？",         "我叫小明，很高兴认识你！", "你今天过得怎么样？",
    "今天天气很好，我们去公园吧。", "人工智能是什么？",         "人工智能是计算机科学的一个分支。",
};

TextSource source_of(Texts texts) {
  return [texts = std::move(texts), next = std::size_t{0}]() mutable {
    return next < texts.size() ? std::optional(texts[next++]) : std::nullopt;
  };
}

/// Sentences of words whose frequency falls from the first to the last.
Texts made_up(std::size_t count) {
  const Texts words = {"the",   "house", "is",     "green", "and",    "small", "window",
                       "opens", "under", "garden", "seven", "bridge", "quick", "zephyr"};
  Texts texts;
  std::uint32_t state = 7;
  for (std::size_t i = 0; i < count; ++i) {
    std::string text;
    for (std::size_t word = 0; word < 3 + i % 9; ++word) {
      state = state * 1664525U + 1013904223U;
      const std::size_t a = (state >> 8U) % words.size(), b = (state >> 20U) % words.size();
      text += (word ? " " : "") + words[std::min(a, b)];
    }
    texts.push_back(text);
  }
  return texts;
}

std::unique_ptr<Tokenizer> pieces_of(const Texts& texts, const SentencePieceOptions& options = {}) {
  return train_sentencepiece(source_of(texts), options);
}

std::unique_ptr<Tokenizer> characters_of(const Texts& texts, std::int64_t vocabulary = 1000) {
  return train_characters(source_of(texts), vocabulary);
}

/// Both kinds, with every character of the texts.
std::vector<std::unique_ptr<Tokenizer>> both_of(const Texts& texts) {
  std::vector<std::unique_ptr<Tokenizer>> all;
  all.push_back(pieces_of(texts, {.character_coverage = 1}));
  all.push_back(characters_of(texts));
  return all;
}

void expect_corrupt(const std::string& bytes) {
  try {
    load_tokenizer(bytes, "some/tokens");
    ADD_FAILURE() << bytes.size() << " bytes were loaded";
  } catch (const CorruptFile& error) {
    EXPECT_EQ(error.path, "some/tokens");
  }
}

TEST(Tokens, SentencePieceTrainsAndEncodesBesideTorch) {
  const torch::Tensor before = torch::ones({4, 4}).matmul(torch::ones({4, 4}));
  const auto tokenizer = pieces_of(made_up(500), {.vocabulary = 60});
  const Tokens tokens = tokenizer->encode("the green house");
  EXPECT_EQ(tokenizer->decode(tokens), "the green house");
  EXPECT_LT(tokens.size(), 9U) << "whole words, or large parts of them, are pieces";
  EXPECT_TRUE(torch::ones({4, 4}).matmul(torch::ones({4, 4})).equal(before));
}

TEST(Tokens, FrenchAndChineseComeBackAsTheyWere) {
  for (const Texts& texts : {kFrench, kChinese})
    for (const auto& tokenizer : both_of(texts))
      for (const std::string& text : texts) {
        const Tokens tokens = tokenizer->encode(text);
        EXPECT_EQ(tokenizer->decode(tokens), text);
        EXPECT_TRUE(std::all_of(tokens.begin(), tokens.end(), [&](std::int32_t token) {
          return token >= kFirstOwnToken && token < tokenizer->size();
        })) << text;
      }
}

TEST(Tokens, ChineseNeedsNoSegmenter) {
  const auto tokenizer = pieces_of(kChinese, {.character_coverage = 1});
  const Tokens tokens = tokenizer->encode("人工智能是什么？");  // 8 characters
  EXPECT_LT(tokens.size(), 8U) << "pieces are longer than a character";
  EXPECT_EQ(tokenizer->decode(tokens), "人工智能是什么？");
}

TEST(Tokens, ExtraSpacesAreOneForSentencePiece) {
  const auto tokenizer = pieces_of(made_up(100));
  EXPECT_EQ(tokenizer->encode("  the   house "), tokenizer->encode("the house"));
}

TEST(Tokens, TheSameTextGivesTheSameBytes) {
  const SentencePieceOptions options = {.vocabulary = 80, .most_texts = 300, .seed = 5};
  const std::string once = pieces_of(made_up(1000), options)->bytes();
  pieces_of(kFrench);  // leaves nothing behind
  EXPECT_EQ(pieces_of(made_up(1000), options)->bytes(), once);
  std::string elsewhere;
  std::jthread([&] { elsewhere = pieces_of(made_up(1000), options)->bytes(); }).join();
  EXPECT_EQ(elsewhere, once);
  EXPECT_EQ(characters_of(kFrench)->bytes(), characters_of(kFrench)->bytes());
}

TEST(Tokens, OfMoreTextsAChoiceThatBelongsToTheSeedIsTrainedOn) {
  const auto chosen = [](std::uint64_t seed) {
    return pieces_of(made_up(1000), {.vocabulary = 80, .most_texts = 20, .seed = seed})->bytes();
  };
  EXPECT_NE(chosen(1), chosen(2));
  // The texts that come late have their part in it.
  Texts texts(1000, "aa bb");
  texts.insert(texts.end(), 1000, "cc dd");
  const auto tokenizer = pieces_of(texts, {.most_texts = 100});
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("aa dd")), "aa dd");
}

TEST(Tokens, BytesAreLoadedAgain) {
  for (const auto& tokenizer : both_of(kFrench)) {
    const auto loaded = load_tokenizer(tokenizer->bytes(), "path");
    EXPECT_EQ(loaded->bytes(), tokenizer->bytes());
    EXPECT_EQ(loaded->size(), tokenizer->size());
    for (const std::string& text : kFrench)
      EXPECT_EQ(loaded->encode(text), tokenizer->encode(text));
    for (std::int32_t token = 0; token < loaded->size(); ++token)
      EXPECT_EQ(loaded->piece(token), tokenizer->piece(token));
  }
}

TEST(Tokens, TornAndAlteredBytesAreRefused) {
  for (const auto& tokenizer : both_of({"some words", "and more words"})) {
    const std::string bytes = tokenizer->bytes();
    for (std::size_t size = 0; size < bytes.size(); ++size) expect_corrupt(bytes.substr(0, size));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      std::string altered = bytes;
      altered[i] = static_cast<char>(altered[i] ^ 4);
      expect_corrupt(altered);
    }
    expect_corrupt(bytes + "x");
  }
}

TEST(Tokens, WholeBodiesThatAreNoVocabularyAreRefusedWithoutAWord) {
  testing::internal::CaptureStderr();
  for (const std::string body : {"", "garbage",
                                 "\n\x03\n\x01"
                                 "a"}) {
    expect_corrupt(sealed(kSentencePiece, body));
    EXPECT_THROW(load_sentencepiece(body, "path"), CorruptFile);
  }
  for (const std::string body : {"", "aba", "a\xff"}) expect_corrupt(sealed(kCharacters, body));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Tokens, CharactersHaveAFormatThatPeopleCanRead) {
  EXPECT_EQ(characters_of({"aba é", "a"})->bytes(), "lockstep characters 1 5 c6cc8651\na bé");
}

TEST(Tokens, UnknownIsOneTokenAndShows) {
  for (const auto& tokenizer : both_of({"only these words", "these words only"})) {
    const Tokens tokens = tokenizer->encode("on语ly");
    EXPECT_EQ(std::count(tokens.begin(), tokens.end(), kUnknown), 1);
    EXPECT_EQ(tokenizer->decode(tokens), "on\u2047ly");
    EXPECT_EQ(tokenizer->encode("\xff").back(), kUnknown);
  }
}

TEST(Tokens, MarksAreLeftOutAndNeverEncoded) {
  for (const auto& tokenizer : both_of({"only <s> these </s> words", "<pad> and <unk>"})) {
    Tokens tokens = tokenizer->encode("words <s> these</s>");
    EXPECT_TRUE(std::none_of(tokens.begin(), tokens.end(), [](std::int32_t token) {
      return token == kPad || token == kBegin || token == kEnd;
    }));
    tokens = tokenizer->encode("these words");
    tokens.insert(tokens.begin(), {kBegin, kPad});
    tokens.insert(tokens.end(), {kEnd, kPad});
    EXPECT_EQ(tokenizer->decode(tokens), "these words");
    EXPECT_EQ(tokenizer->decode({}), "");
  }
}

TEST(Tokens, OnlyAnEmptyTextHasNoTokens) {
  for (const auto& tokenizer : both_of({"a b", "b a"})) {
    EXPECT_TRUE(tokenizer->encode("").empty());
    EXPECT_FALSE(tokenizer->encode(" ").empty());
    EXPECT_FALSE(tokenizer->encode("\u2581").empty());
  }
}

TEST(Tokens, PiecesReadAsLabels) {
  for (const auto& tokenizer : both_of(made_up(300))) {
    std::string joined;
    for (const std::int32_t token : tokenizer->encode("x the house")) {
      const std::string piece = tokenizer->piece(token);
      EXPECT_EQ(piece.find("\u2581"), std::string::npos);
      joined += piece;
    }
    EXPECT_TRUE(joined == "_<unk>_the_house" || joined == "<unk>_the_house") << joined;
    EXPECT_EQ(tokenizer->piece(kPad), "<pad>");
    EXPECT_EQ(tokenizer->piece(kBegin), "<s>");
    EXPECT_EQ(tokenizer->piece(kEnd), "</s>");
  }
}

TEST(Tokens, TheVocabularyIsAsLargeAsAskedForAtMost) {
  const auto texts = made_up(500);
  for (const std::int64_t vocabulary : {40, 60, 100})
    EXPECT_LE(pieces_of(texts, {.vocabulary = vocabulary})->size(), vocabulary);
  EXPECT_LT(pieces_of(texts, {.vocabulary = 30'000})->size(), 1000) << "there are no more pieces";
  EXPECT_EQ(characters_of({"abcabab"}, 6)->size(), 6);
  EXPECT_EQ(characters_of({"abcabab"}, 6)->encode("abc"), (Tokens{4, 5, kUnknown}));
  EXPECT_EQ(characters_of({"abcabab"}, 60)->size(), 7);
}

TEST(Tokens, FrequentTokensComeFirst) {
  const auto texts = made_up(2000);
  for (const auto& tokenizer : both_of(texts)) {
    std::vector<std::int64_t> counts(static_cast<std::size_t>(tokenizer->size()));
    for (const std::string& text : texts)
      for (const std::int32_t token : tokenizer->encode(text))
        ++counts[static_cast<std::size_t>(token)];
    const auto middle = counts.begin() + (kFirstOwnToken + tokenizer->size()) / 2;
    const auto sum = [](auto begin, auto end) { return std::accumulate(begin, end, 0LL); };
    EXPECT_GT(sum(counts.begin() + kFirstOwnToken, middle), 2 * sum(middle, counts.end()));
  }
}

TEST(Tokens, TooLittleTextIsRefused) {
  for (const Texts& none : {Texts{}, Texts{"", " "}, Texts{"\u2581", " \u2581 \u2581"}})
    EXPECT_THROW(pieces_of(none), ConfigError);
  for (const Texts& none : {Texts{}, Texts{"", ""}, Texts{"\xff"}})
    EXPECT_THROW(characters_of(none), ConfigError);
  EXPECT_EQ(pieces_of({"a"})->size(), 6) << "a letter and the space";
}

TEST(Tokens, LongTextsAreTrainedOnToo) {
  EXPECT_NO_THROW(pieces_of({std::string(5000, 'a')}));  // more than SentencePiece takes by default
}

TEST(Tokens, OptionsThatCannotBeAreRefused) {
  const auto texts = made_up(50);
  for (const std::int64_t vocabulary : {-1, 0, 4, 12}) {
    EXPECT_THROW(pieces_of(texts, {.vocabulary = vocabulary}), ConfigError);
  }
  EXPECT_THROW(pieces_of(texts, {.character_coverage = 0.5}), ConfigError);
  EXPECT_THROW(pieces_of(texts, {.character_coverage = 1.5}), ConfigError);
  EXPECT_THROW(pieces_of(texts, {.most_texts = 0}), ConfigError);
  EXPECT_THROW(characters_of(texts, 4), ConfigError);
}

TEST(Tokens, TokensThatAreNotThereAreRefused) {
  for (const auto& tokenizer : both_of({"a b", "b a"}))
    for (const auto token : {std::int32_t{-1}, static_cast<std::int32_t>(tokenizer->size())}) {
      EXPECT_THROW(tokenizer->piece(token), std::logic_error);
      EXPECT_THROW(tokenizer->decode(Tokens{token}), std::logic_error);
    }
}

TEST(Tokens, ThreadsEncodeTheSame) {
  const auto texts = made_up(500);
  for (const auto& tokenizer : both_of(texts)) {
    std::vector<std::vector<Tokens>> found(4);
    {
      std::vector<std::jthread> threads;
      for (auto& mine : found)
        threads.emplace_back([&] {
          for (const std::string& text : texts) mine.push_back(tokenizer->encode(text));
        });
    }
    for (const auto& each : found) EXPECT_EQ(each, found.front());
  }
}

TEST(Tokens, NothingIsPrinted) {
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  pieces_of(made_up(200));
  EXPECT_THROW(pieces_of(made_up(50), {.vocabulary = 12}), ConfigError);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace tokens_test
