// BLEU: words by 13a, counts, the value. Numbers are sacrebleu's; tests/oracles/bleu.py asks it for
// more.

#include <gtest/gtest.h>
#include <lockstep/text/bleu.h>

namespace bleu_test {

using namespace lockstep;
using namespace lockstep::text;
using Words = std::vector<std::string>;

TEST(Bleu, PunctuationIsAWordOfItsOwnButNotTheApostropheAndTheHyphen) {
  EXPECT_EQ(bleu_words("Hello, world! (L'état-major: \"oui\")"),
            (Words{"Hello", ",", "world", "!", "(", "L'état-major", ":", "\"", "oui", "\"", ")"}));
}

TEST(Bleu, PeriodAndCommaStayInsideNumbers) {
  EXPECT_EQ(bleu_words("1,000.5 costs 3.14."), (Words{"1,000.5", "costs", "3.14", "."}));
  EXPECT_EQ(bleu_words("x.5 5.x a.b"), (Words{"x", ".", "5", "5", ".", "x", "a", ".", "b"}));
  EXPECT_EQ(bleu_words("wait..."), (Words{"wait", ".", ".", "."}));
}

TEST(Bleu, ADashAfterADigitIsAWord) {
  EXPECT_EQ(bleu_words("2019-2020, B-52, 5-a"),
            (Words{"2019", "-", "2020", ",", "B-52", ",", "5", "-", "a"}));
}

TEST(Bleu, EntitiesAreLettersOnce) {
  EXPECT_EQ(bleu_words("&quot;a&quot; &amp;lt; &amp;quot;"),
            (Words{"\"", "a", "\"", "<", "&", "quot", ";"}));
}

TEST(Bleu, MarksOfSkippedPartsAndBrokenLinesAreJoined) {
  EXPECT_EQ(bleu_words("a<skipped>b exam-\nple two\nlines-\n"),
            (Words{"ab", "example", "two", "lines-"}));
}

TEST(Bleu, EverySpaceOfUnicodeSeparatesWords) {
  EXPECT_EQ(bleu_words("1\u00a0000\u202f€\u2009et\u3000plus\u2028\tfin\u200a"),
            (Words{"1", "000", "€", "et", "plus", "fin"}));
  EXPECT_EQ(bleu_words("a\u200bb\u200c"), (Words{"a\u200bb\u200c"}));  // these have no width
}

TEST(Bleu, BrokenUtf8IsKeptAsItIs) {
  EXPECT_EQ(bleu_words("\xe2 \xe2\x80 \xff.\xc2"),
            (Words{"\xe2", "\xe2\x80", "\xff", ".", "\xc2"}));
}

TEST(Bleu, NothingHasNoWords) {
  EXPECT_TRUE(bleu_words("").empty());
  EXPECT_TRUE(bleu_words(" \n\u00a0").empty());
}

TEST(Bleu, AnNGramMatchesAtMostAsOftenAsTheReferenceHasIt) {
  const BleuCounts counts = bleu_counts("the the the the", "the cat");
  EXPECT_EQ(counts.matches, (std::array<std::int64_t, 4>{1, 0, 0, 0}));
  EXPECT_EQ(counts.totals, (std::array<std::int64_t, 4>{4, 3, 2, 1}));
  EXPECT_EQ(counts.output_words, 4);
  EXPECT_EQ(counts.reference_words, 2);
  EXPECT_NEAR(counts.value(), 15.97357760615681, 1e-9);
}

TEST(Bleu, OneSentenceAsSacrebleuHasIt) {
  const BleuCounts counts = bleu_counts("Le chat est sur le tapis.", "Le chat dort sur le tapis.");
  EXPECT_EQ(counts.matches, (std::array<std::int64_t, 4>{6, 4, 2, 1}));
  EXPECT_NEAR(counts.value(), 48.892302243490086, 1e-9);
}

TEST(Bleu, ACorpusIsTheSumOfItsSentences) {
  BleuCounts first = bleu_counts("Le chat dort sur le tapis.", "Le chat dort sur un tapis.");
  BleuCounts rest = bleu_counts("Le prix est de 1\u202f000,50\u00a0€ en 2019-2020.",
                                "Le prix était de 1\u202f000,50\u00a0€ en 2019-2020.");
  rest += bleu_counts("", "Rien à dire.");
  first += rest;
  EXPECT_EQ(first.output_words, 19);
  EXPECT_EQ(first.reference_words, 23);
  EXPECT_NEAR(first.value(), 55.5512077058856, 1e-9);
}

TEST(Bleu, EveryOrderWithoutAMatchCountsHalfOfTheLast) {
  EXPECT_NEAR(bleu_counts("a b x c d y", "a b z c d w").value(), 22.957488466614336, 1e-9);
}

TEST(Bleu, AnEqualTextHasExactly100) {
  EXPECT_EQ(bleu_counts("a b c d e", "a b c d e").value(), 100);
}

TEST(Bleu, WithoutMatchesOrFourWordsItIs0) {
  EXPECT_EQ(BleuCounts().value(), 0);
  EXPECT_EQ(bleu_counts("a b c d", "e f g h").value(), 0);
  EXPECT_EQ(bleu_counts("the cat sat", "the cat sat").value(), 0);
  EXPECT_EQ(bleu_counts("", "a b c d").value(), 0);
  EXPECT_EQ(bleu_counts("a b c d", "").value(), 0);
}

}  // namespace bleu_test
