#include "families/seq2seq/pairs.h"

#include <lockstep/error.h>

#include <algorithm>
#include <filesystem>

#include "families/seq2seq/recipe.h"
#include "recipe/family.h"
#include "recipe/words.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;

/// What is read for one part: two files of `parallel`, one file or folder of the others.
struct Files {
  std::string path;
  std::string target_path;
};

std::string chatterbot_folder(const std::string& language) {
  const fs::path corpus = LOCKSTEP_CHATTERBOT;
  if (!fs::is_directory(corpus))
    throw ConfigError(
        "chatterbot-corpus is not installed: run scripts/setup, or set data.path to "
        "a folder of its YAML files.");
  if (fs::is_directory(corpus / language)) return corpus / language;
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(corpus))
    if (entry.is_directory()) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  throw ConfigError("text.language is '" + language +
                    "', and chatterbot-corpus has: " + listed(names) + ".");
}

std::string gettext_folder(const std::string& language) {
  const std::string folder = "/usr/share/locale/" + language + "/LC_MESSAGES";
  if (fs::is_directory(folder)) return folder;
  throw ConfigError("text.language is '" + language + "', and there is no folder '" + folder +
                    "': give a language that this machine has, or set data.path to a folder of "
                    ".mo files.");
}

/// The number of a kind in the key of files of tokens.
int number_of(const std::string& kind) {
  return kind == "tsv" ? 3 : kind == "parallel" ? 4 : kind == "chatterbot" ? 5 : 6;
}

text::PairReader reader_of(const std::string& kind, const Files& files) {
  return [=](text::OnBadPair on_bad, const text::PairSink& sink) {
    if (kind == "tsv") return text::read_tsv_pairs(files.path, on_bad, sink);
    if (kind == "parallel")
      return text::read_parallel_pairs(files.path, files.target_path, on_bad, sink);
    if (kind == "chatterbot") return text::read_chatterbot_pairs(files.path, on_bad, sink);
    return text::read_gettext_pairs(files.path, on_bad, sink);
  };
}

Files train_files(const Recipe& recipe) {
  const auto& its = own<Seq2SeqRecipe>(recipe);
  if (!recipe.data.path.empty()) return {recipe.data.path, its.target_path};
  if (recipe.data.kind == "chatterbot") return {chatterbot_folder(its.text.language), ""};
  return {gettext_folder(its.text.language), ""};
}

}  // namespace

text::CorpusPairs corpus_pairs(const Recipe& recipe) {
  const auto& its = own<Seq2SeqRecipe>(recipe);
  const std::string& kind = recipe.data.kind;
  const Files train = train_files(recipe), test{its.test_path, its.test_target_path};
  text::CorpusPairs pairs{.train = reader_of(kind, train), .kind = std::to_string(number_of(kind))};
  if (!its.test_path.empty()) pairs.test = reader_of(kind, test);
  for (const std::string& path : {train.path, train.target_path, test.path, test.target_path})
    pairs.files += text::file_times(path);
  return pairs;
}

}  // namespace lockstep::apps
