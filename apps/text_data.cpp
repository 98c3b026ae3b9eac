#include "text_data.h"

#include <lockstep/error.h>
#include <lockstep/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "run_folder.h"
#include "terminal.h"
#include "text_pairs_of.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostTexts = 400'000;  // that tokens are learned from

void note(const std::string& text) { std::cerr << "note: " << text << "\n"; }

void tell(const text::PairReport& report) {
  for (std::size_t fault = 0; fault < report.bad.size(); ++fault)
    if (report.bad[fault] > 0)
      note(std::string("pairs skipped, ") + text::kPairFaults[fault] + ": " +
           std::to_string(report.bad[fault]));
  for (const std::string& example : report.examples) note("  " + example);
}

/// A sample of the training texts, at most kMostTexts: each text is as likely in it as another.
std::vector<std::string> sample_of_texts(const Recipe& recipe) {
  KeyedRandom random(static_cast<std::uint64_t>(recipe.seed), 0, 0);
  std::vector<std::string> sample;
  std::int64_t count = 0;
  const auto add = [&](std::string text) {
    ++count;
    if (sample.size() < kMostTexts) return sample.push_back(std::move(text));
    const std::int64_t place = random.below(count);
    if (place < static_cast<std::int64_t>(kMostTexts))
      sample[static_cast<std::size_t>(place)] = std::move(text);
  };
  StatusLine line;
  for_each_pair(recipe, [&](text::TextPair pair, Part part) {
    if (line.due()) line.show("reads texts: " + std::to_string(count));
    if (part == Part::test) return;
    add(std::move(pair.source));
    add(std::move(pair.target));
  });
  return sample;
}

std::shared_ptr<const text::Tokenizer> learned_tokens(const Recipe& recipe) {
  const std::vector<std::string> texts = sample_of_texts(recipe);
  if (texts.empty())
    throw ConfigError(
        "there is no pair of texts to train on: see data.kind, data.path and "
        "text.held_out.");
  const text::TextSource source = [&, i = std::size_t{0}]() mutable -> std::optional<std::string> {
    if (i == texts.size()) return std::nullopt;
    return texts[i++];
  };
  StatusLine line;
  line.show("learns tokens from " + std::to_string(texts.size()) + " texts");
  if (recipe.text.tokens == TokenKind::characters)
    return text::train_characters(source, recipe.text.vocabulary);
  // A small corpus has few rare characters, and all of them matter.
  constexpr std::size_t kFewTexts = 20'000;
  return text::train_sentencepiece(source,
                                   {.vocabulary = recipe.text.vocabulary,
                                    .character_coverage = texts.size() < kFewTexts ? 1 : 0.9998,
                                    .seed = static_cast<std::uint64_t>(recipe.seed)});
}

/// What the files of pairs were made of.
std::string key_of(const Recipe& recipe, const text::Tokenizer& tokens) {
  return std::to_string(static_cast<int>(recipe.data.kind)) + " " +
         std::to_string(recipe.text.held_out) + (recipe.text.unique ? " unique" : "") +
         (recipe.text.refuse_bad ? " strict\n" : "\n") + files_of_pairs(recipe) +
         std::to_string(text_hash(tokens.bytes()));
}

/// A folder for files of this process, gone with it.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_(fs::temp_directory_path() / "lockstep-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) throw IoError(path_, "make the folder", errno);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct PairFiles {
  text::PairFile train;
  text::PairFile test;
};

bool is_of(const std::string& path, const std::string& key) {
  try {
    return fs::exists(path) && text::PairFile(path).key() == key;
  } catch (const CorruptFile&) {
    return false;  // it is made anew
  }
}

/// Every pair as tokens.
text::PairReport encode(const Recipe& recipe, const text::Tokenizer& tokens,
                        text::PairFileWriter& train, text::PairFileWriter& test) {
  std::int64_t count = 0;
  StatusLine line;
  return for_each_pair(recipe, [&](const text::TextPair& pair, Part part) {
    const auto source = tokens.encode(pair.source), target = tokens.encode(pair.target);
    (part == Part::train ? train : test).add({source, target});
    if (++count; line.due()) line.show("encodes pairs: " + std::to_string(count));
  });
}

/// `quiet`: what was wrong with the data has been said.
PairFiles pair_files(const Recipe& recipe, const text::Tokenizer& tokens, const std::string& folder,
                     bool quiet) {
  const std::string key = key_of(recipe, tokens);
  const std::string base = folder + "/" + std::to_string(text_hash(key));
  const std::string train = base + ".train.pairs", test = base + ".test.pairs";
  if (!is_of(train, key) || !is_of(test, key)) {
    text::PairFileWriter train_writer(train, key), test_writer(test, key);
    const text::PairReport report = encode(recipe, tokens, train_writer, test_writer);
    if (!quiet) tell(report);
    train_writer.finish();
    test_writer.finish();
  }
  return {text::PairFile(train), text::PairFile(test)};
}

std::vector<text::Bucket> buckets_of(const TextRecipe& text, const text::PairFile& pairs) {
  if (text.quantiles > 0) return text::quantile_buckets(pairs, text.quantiles);
  std::vector<text::Bucket> buckets;
  for (std::size_t i = 0; i < text.source_lengths.size(); ++i)
    buckets.push_back({text.source_lengths[i], text.target_lengths[i]});
  return buckets;
}

/// Evaluated once through, in a random order: the first batches are a sample of all.
text::BucketedPairs test_batches(const Recipe& recipe, const text::PairFile& pairs,
                                 text::BucketOptions options) try {
  options.batch_tokens = 0;
  options.batch_rows = recipe.data.test_batch;
  return {pairs, options};
} catch (const ConfigError& problem) {
  throw ConfigError(std::string("of the pairs to test on: ") + problem.what());
}

void tell_too_long(const text::BucketedPairs& pairs, const std::string& which, bool cut) {
  if (const std::int64_t count = pairs.too_long(); count > 0)
    note(std::to_string(count) + " " + which + " too long for every bucket: " +
         (cut ? "cut" : "left out (text.cut = true would cut them)"));
}

}  // namespace

TextData text_data(const Recipe& recipe, const JobFiles& files) {
  const auto kept = files.kept.find(kTokensFile);
  const bool known = kept != files.kept.end();
  const std::shared_ptr<const text::Tokenizer> tokens =
      known ? text::load_tokenizer(kept->second, kTokensFile) : learned_tokens(recipe);
  std::optional<TemporaryFolder> temporary;
  std::string folder = files.folder + "/data";
  if (files.folder.empty() || ::access(files.folder.c_str(), W_OK) != 0) {
    folder = temporary.emplace().path();
  } else {
    fs::create_directories(folder);
    write_file(files.folder + "/" + kTokensFile, tokens->bytes());
  }
  const PairFiles pairs = pair_files(recipe, *tokens, folder, known && files.folder.empty());
  if (pairs.train.size() == 0) throw ConfigError("there is no pair of texts to train on.");
  const bool held_out = pairs.test.size() > 0;
  if (!held_out && !recipe.data.test_path.empty())
    throw ConfigError("data.test_path is '" + recipe.data.test_path +
                      "', and there is no pair of texts in it.");
  const text::PairFile& tested = held_out ? pairs.test : pairs.train;
  const text::BucketOptions options{
      .buckets = buckets_of(recipe.text, pairs.train),
      .batch_tokens = recipe.text.batch_tokens,
      .batch_rows = recipe.data.batch,
      .too_long = recipe.text.cut ? text::TooLong::cut : text::TooLong::drop,
      .seed = static_cast<std::uint64_t>(recipe.seed)};
  TextData data{.tokens = tokens,
                .train = text::BucketedPairs(pairs.train, options),
                .test = test_batches(recipe, tested, options),
                .test_pairs = tested,
                .held_out = held_out};
  if (known) return data;  // it was said at the first start
  note(std::to_string(pairs.train.size()) + " pairs to train on, " +
       (held_out ? std::to_string(pairs.test.size()) + " held out" : "none held out") + ", " +
       std::to_string(tokens->size()) + " tokens");
  tell_too_long(data.train, "of them", recipe.text.cut);
  if (held_out) tell_too_long(data.test, "of those held out", recipe.text.cut);
  return data;
}

}  // namespace lockstep::apps
