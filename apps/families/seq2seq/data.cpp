#include "families/seq2seq/data.h"

#include <lockstep/error.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "families/seq2seq/pairs.h"
#include "families/seq2seq/recipe.h"
#include "notes.h"
#include "recipe/family.h"
#include "run_folder.h"
#include "terminal.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;

void tell(const text::PairReport& report) {
  for (std::size_t fault = 0; fault < report.bad.size(); ++fault)
    if (report.bad[fault] > 0)
      tell_note(std::string("pairs skipped, ") + text::kPairFaults[fault] + ": " +
                std::to_string(report.bad[fault]));
  for (const std::string& example : report.examples) tell_note("  " + example);
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

/// With what it does on the status line.
text::Corpus prepared(const Recipe& recipe, const std::string& folder,
                      std::shared_ptr<const text::Tokenizer> tokens) {
  const TextRecipe& text = own<Seq2SeqRecipe>(recipe).text;
  StatusLine line;
  return text::prepare_corpus(
      corpus_pairs(recipe),
      {.held_out = text.held_out,
       .unique = text.unique,
       .on_bad = text.refuse_bad ? text::OnBadPair::refuse : text::OnBadPair::skip,
       .tokens = text.tokens,
       .vocabulary = text.vocabulary,
       .seed = static_cast<std::uint64_t>(recipe.seed)},
      folder, std::move(tokens), [&](text::CorpusStage stage, std::int64_t count) {
        const std::string number = std::to_string(count);
        if (stage == text::CorpusStage::learning)
          line.show("learns tokens from " + number + " texts");
        else if (line.due())
          line.show((stage == text::CorpusStage::reading ? "reads texts: " : "encodes pairs: ") +
                    number);
      });
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
    tell_note(std::to_string(count) + " " + which + " too long for every bucket: " +
              (cut ? "cut" : "left out (text.cut = true would cut them)"));
}

}  // namespace

TextData text_data(const Recipe& recipe, const JobFiles& files) {
  const auto& its = own<Seq2SeqRecipe>(recipe);
  const auto kept = files.kept.find(kTokensFile);
  const bool known = kept != files.kept.end();
  std::optional<TemporaryFolder> temporary;
  const bool stays = !files.folder.empty() && ::access(files.folder.c_str(), W_OK) == 0;
  const std::string folder = stays ? files.folder + "/data" : temporary.emplace().path();
  fs::create_directories(folder);
  const text::Corpus corpus =
      prepared(recipe, folder, known ? text::load_tokenizer(kept->second, kTokensFile) : nullptr);
  if (stays) write_file(files.folder + "/" + kTokensFile, corpus.tokens->bytes());
  const bool told = known && files.folder.empty();  // when its first job was made
  if (corpus.report && !told) tell(*corpus.report);
  const bool held_out = corpus.test.size() > 0;
  if (!held_out && !its.test_path.empty())
    throw ConfigError("data.test_path is '" + its.test_path +
                      "', and there is no pair of texts in it.");
  const text::PairFile& tested = held_out ? corpus.test : corpus.train;
  const text::BucketOptions options{
      .buckets = buckets_of(its.text, corpus.train),
      .batch_tokens = its.text.batch_tokens,
      .batch_rows = recipe.data.batch,
      .too_long = its.text.cut ? text::TooLong::cut : text::TooLong::drop,
      .seed = static_cast<std::uint64_t>(recipe.seed)};
  TextData data{.tokens = corpus.tokens,
                .train = text::BucketedPairs(corpus.train, options),
                .test = test_batches(recipe, tested, options),
                .test_pairs = tested,
                .held_out = held_out};
  if (known) return data;  // it was said at the first start
  tell_note(std::to_string(corpus.train.size()) + " pairs to train on, " +
            (held_out ? std::to_string(corpus.test.size()) + " held out" : "none held out") + ", " +
            std::to_string(corpus.tokens->size()) + " tokens");
  tell_too_long(data.train, "of them", its.text.cut);
  if (held_out) tell_too_long(data.test, "of those held out", its.text.cut);
  return data;
}

}  // namespace lockstep::apps
