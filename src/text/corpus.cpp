#include <lockstep/error.h>
#include <lockstep/input/reservoir.h>
#include <lockstep/text/corpus.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <unordered_set>
#include <vector>

#include "text/pair_spool.h"

namespace lockstep::text {
namespace {

namespace fs = std::filesystem;

using PartSink = std::function<void(TextPair, Part)>;

/// Hands on what was not there before.
PairSink each_once(bool unique, PairSink sink) {
  if (!unique) return sink;
  const auto seen = std::make_shared<std::unordered_set<std::uint64_t>>();
  return [seen, sink = std::move(sink)](TextPair pair) {
    if (seen->insert(text_hash(pair.source + '\0' + pair.target)).second) sink(std::move(pair));
  };
}

/// Goes through all pairs, in the order of their files.
PairReport for_each_pair(const CorpusPairs& pairs, const CorpusOptions& options,
                         const PartSink& sink) {
  const double limit = pairs.test ? 0 : std::ldexp(options.held_out, 64);
  PairReport report = pairs.train(options.on_bad, each_once(options.unique, [&](TextPair pair) {
                                    const bool test =
                                        static_cast<double>(text_hash(pair.source)) < limit;
                                    sink(std::move(pair), test ? Part::test : Part::train);
                                  }));
  if (pairs.test)
    report += pairs.test(options.on_bad, each_once(options.unique, [&](TextPair pair) {
                           sink(std::move(pair), Part::test);
                         }));
  return report;
}

std::shared_ptr<const Tokenizer> learned(const std::vector<std::string>& texts,
                                         const CorpusOptions& options) {
  const TextSource source = [&, i = std::size_t{0}]() mutable -> std::optional<std::string> {
    if (i == texts.size()) return std::nullopt;
    return texts[i++];
  };
  if (options.tokens == TokenKind::characters) return train_characters(source, options.vocabulary);
  // A small corpus has few rare characters, and all of them matter.
  constexpr std::size_t kFewTexts = 20'000;
  return train_sentencepiece(source, {.vocabulary = options.vocabulary,
                                      .character_coverage = texts.size() < kFewTexts ? 1 : 0.9998,
                                      .seed = options.seed});
}

/// What files of tokens were made of.
std::string key_of(const CorpusPairs& pairs, const CorpusOptions& options,
                   const Tokenizer& tokens) {
  return pairs.kind + " " + std::to_string(options.held_out) + (options.unique ? " unique" : "") +
         (options.on_bad == OnBadPair::refuse ? " strict\n" : "\n") + pairs.files +
         std::to_string(text_hash(tokens.bytes()));
}

bool is_of(const std::string& path, const std::string& key) {
  try {
    return fs::exists(path) && PairFile(path).key() == key;
  } catch (const CorruptFile&) {
    return false;  // it is made anew
  }
}

/// The files of tokens of one key: two, one a part.
struct TokenFiles {
  TokenFiles(const std::string& folder, std::string its_key)
      : key(std::move(its_key)),
        train(folder + "/" + std::to_string(text_hash(key)) + ".train.pairs"),
        test(folder + "/" + std::to_string(text_hash(key)) + ".test.pairs") {}

  bool there() const { return is_of(train, key) && is_of(test, key); }

  /// Writes what `each_pair` hands over.
  void write(const Tokenizer& tokens, const CorpusProgress& progress,
             const std::function<void(const PartSink&)>& each_pair) const {
    PairFileWriter train_writer(train, key), test_writer(test, key);
    std::int64_t count = 0;
    each_pair([&](const TextPair& pair, Part part) {
      const auto source = tokens.encode(pair.source), target = tokens.encode(pair.target);
      (part == Part::train ? train_writer : test_writer).add({source, target});
      if (++count; progress) progress(CorpusStage::encoding, count);
    });
    train_writer.finish();
    test_writer.finish();
  }

  const std::string key, train, test;
};

/// A sample of the texts to train on; all pairs go into the spool as well.
std::vector<std::string> sample_of_texts(const CorpusPairs& pairs, const CorpusOptions& options,
                                         PairSpool& spool, PairReport& report,
                                         const CorpusProgress& progress) {
  input::Reservoir<std::string> sample(options.most_texts, options.seed);
  report = for_each_pair(pairs, options, [&](TextPair pair, Part part) {
    spool.add(pair, part);
    if (progress) progress(CorpusStage::reading, sample.seen());
    if (part == Part::test) return;
    sample.add(std::move(pair.source));
    sample.add(std::move(pair.target));
  });
  return std::move(sample).take();
}

}  // namespace

Corpus prepare_corpus(const CorpusPairs& pairs, const CorpusOptions& options,
                      const std::string& folder, std::shared_ptr<const Tokenizer> tokens,
                      const CorpusProgress& progress) {
  constexpr const char* kNothing =
      "there is no pair of texts to train on: nothing was read, or held_out leaves none of it.";
  std::optional<PairReport> report;
  std::optional<PairSpool> spool;
  if (!tokens) {
    const auto texts =
        sample_of_texts(pairs, options, spool.emplace(folder), report.emplace(), progress);
    if (texts.empty()) throw ConfigError(kNothing);
    if (progress) progress(CorpusStage::learning, static_cast<std::int64_t>(texts.size()));
    tokens = learned(texts, options);
  }
  const TokenFiles files(folder, key_of(pairs, options, *tokens));
  if (!files.there())
    files.write(*tokens, progress, [&](const PartSink& sink) {
      if (spool)
        spool->for_each(sink);
      else
        report = for_each_pair(pairs, options, sink);
    });
  Corpus corpus{tokens, PairFile(files.train), PairFile(files.test), std::move(report)};
  if (corpus.train.size() == 0) throw ConfigError(kNothing);
  return corpus;
}

std::string file_times(const std::string& path) {
  const auto one = [](const fs::path& file) {
    return file.string() + " " + std::to_string(fs::file_size(file)) + " " +
           std::to_string(fs::last_write_time(file).time_since_epoch().count()) + "\n";
  };
  if (path.empty()) return "";
  if (!fs::is_directory(path)) return fs::exists(path) ? one(path) : path;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::ranges::sort(files);
  std::string text;
  for (const fs::path& file : files) text += one(file);
  return text;
}

std::uint64_t text_hash(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a, then mixed: every bit counts
  for (const char letter : text)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
  hash = (hash ^ (hash >> 33U)) * 0xff51afd7ed558ccdU;
  return hash ^ (hash >> 33U);
}

}  // namespace lockstep::text
