#pragma once

// From pairs of texts to pairs of tokens in files, ready to be cut into batches.
//
//   CorpusPairs pairs{.train = [](OnBadPair on_bad, const PairSink& sink) {
//                       return read_tsv_pairs("pairs.tsv", on_bad, sink);
//                     },
//                     .files = file_times("pairs.tsv")};
//   Corpus corpus = prepare_corpus(pairs, {.held_out = 0.01, .vocabulary = 4000}, "data");

#include <lockstep/text/pair_file.h>
#include <lockstep/text/pairs.h>
#include <lockstep/text/tokens.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::text {

/// Hands over all pairs of some files, in the same order each time: see pairs.h.
using PairReader = std::function<PairReport(OnBadPair, const PairSink&)>;

/// Where pairs come from. `kind` and `files` tell whether existing files of tokens are of these
/// pairs.
struct CorpusPairs {
  PairReader train = {};
  PairReader test = {};    ///< empty: `held_out` of those to train on
  std::string kind = {};   ///< which readers they are
  std::string files = {};  ///< what they read: see file_times
};

enum class TokenKind { sentencepiece, characters };

struct CorpusOptions {
  double held_out = 0;  ///< share of the sources to keep for evaluation, chosen by hash
  bool unique = true;   ///< count a pair once, however often it occurs
  OnBadPair on_bad = OnBadPair::skip;
  TokenKind tokens = TokenKind::sentencepiece;
  std::int64_t vocabulary = 8000;     ///< at most
  std::int64_t most_texts = 400'000;  ///< that tokens are learned from, drawn at random
  std::uint64_t seed = 0;             ///< of that draw
};

enum class CorpusStage { reading, learning, encoding };

/// Called often: with the number of texts to learn from so far, of texts that tokens are learned
/// from, or of pairs encoded.
using CorpusProgress = std::function<void(CorpusStage, std::int64_t count)>;

struct Corpus {
  std::shared_ptr<const Tokenizer> tokens;
  PairFile train;
  PairFile test;                                    ///< without pairs when none is held out
  std::optional<PairReport> report = std::nullopt;  ///< of reading; nothing: the files were there
};

/// Reads the pairs once, learns the tokens from those to train on unless `tokens` are given, and
/// writes both parts as tokens into files in `folder`. Files of the same pairs and options that are
/// there already are used; with given tokens nothing is read then. While it reads and learns, the
/// texts wait in an unnamed file in `folder`: memory holds only the sample to learn from and 8
/// bytes per pair. Throws ConfigError when there is nothing to train on, and what readers throw.
Corpus prepare_corpus(const CorpusPairs& pairs, const CorpusOptions& options,
                      const std::string& folder, std::shared_ptr<const Tokenizer> tokens = nullptr,
                      const CorpusProgress& progress = {});

/// A file, or every file of a folder, with its size and time.
std::string file_times(const std::string& path);

/// The same on every machine.
std::uint64_t text_hash(std::string_view text);

}  // namespace lockstep::text
