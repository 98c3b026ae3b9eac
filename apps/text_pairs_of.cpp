#include "text_pairs_of.h"

#include <lockstep/error.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <unordered_set>

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
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  throw ConfigError("text.language is '" + language + "', and chatterbot-corpus has: " + text +
                    ".");
}

std::string gettext_folder(const std::string& language) {
  const std::string folder = "/usr/share/locale/" + language + "/LC_MESSAGES";
  if (fs::is_directory(folder)) return folder;
  throw ConfigError("text.language is '" + language + "', and there is no folder '" + folder +
                    "': give a language that this machine has, or set data.path to a folder of "
                    ".mo files.");
}

Files train_files(const Recipe& recipe) {
  const DataRecipe& data = recipe.data;
  if (!data.path.empty()) return {data.path, data.target_path};
  if (data.kind == DataKind::chatterbot) return {chatterbot_folder(recipe.text.language), ""};
  return {gettext_folder(recipe.text.language), ""};
}

text::PairReport read(const Recipe& recipe, const Files& files, const text::PairSink& sink) {
  const text::OnBadPair on_bad =
      recipe.text.refuse_bad ? text::OnBadPair::refuse : text::OnBadPair::skip;
  switch (recipe.data.kind) {
    case DataKind::tsv:
      return text::read_tsv_pairs(files.path, on_bad, sink);
    case DataKind::parallel:
      return text::read_parallel_pairs(files.path, files.target_path, on_bad, sink);
    case DataKind::chatterbot:
      return text::read_chatterbot_pairs(files.path, on_bad, sink);
    case DataKind::gettext:
      return text::read_gettext_pairs(files.path, on_bad, sink);
    default:
      throw ConfigError("data.kind has no texts");
  }
}

/// Hands on what was not there before.
text::PairSink each_once(bool unique, text::PairSink sink) {
  if (!unique) return sink;
  const auto seen = std::make_shared<std::unordered_set<std::uint64_t>>();
  return [seen, sink = std::move(sink)](text::TextPair pair) {
    if (seen->insert(text_hash(pair.source + '\0' + pair.target)).second) sink(std::move(pair));
  };
}

std::string described(const std::string& path) {
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

}  // namespace

std::uint64_t text_hash(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a, then mixed: every bit counts
  for (const char letter : text)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
  hash = (hash ^ (hash >> 33U)) * 0xff51afd7ed558ccdU;
  return hash ^ (hash >> 33U);
}

text::PairReport for_each_pair(const Recipe& recipe,
                               const std::function<void(text::TextPair, Part)>& action) {
  const bool own_test = !recipe.data.test_path.empty();
  const double limit = own_test ? 0 : std::ldexp(recipe.text.held_out, 64);
  text::PairReport report =
      read(recipe, train_files(recipe), each_once(recipe.text.unique, [&](text::TextPair pair) {
             const bool test = static_cast<double>(text_hash(pair.source)) < limit;
             action(std::move(pair), test ? Part::test : Part::train);
           }));
  if (own_test)
    report += read(recipe, {recipe.data.test_path, recipe.data.test_target_path},
                   each_once(recipe.text.unique,
                             [&](text::TextPair pair) { action(std::move(pair), Part::test); }));
  return report;
}

std::string files_of_pairs(const Recipe& recipe) {
  const Files train = train_files(recipe);
  return described(train.path) + described(train.target_path) + described(recipe.data.test_path) +
         described(recipe.data.test_target_path);
}

}  // namespace lockstep::apps
