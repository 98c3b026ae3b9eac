#include "fields.h"

#include <algorithm>

#include "family.h"
#include "words.h"

namespace lockstep::apps {
namespace {

Section top(Recipe& own) {
  Section section{"", "The training as a whole.", {}};
  std::vector<std::string> names;
  std::string help = "what is trained:";
  for (const Family& family : families()) {
    help += (names.empty() ? " " : ", ") + family.name + " " + family.about;
    names.push_back(family.name);
  }
  add_words(section, "family", own.family, names, help);
  section.add("seed", own.seed,
              "seed for the initial weights, dropout, data order and augmentation; the same seed "
              "and shards give the same result",
              at_least(0));
  section.add(
      "shards", own.shards,
      "parts of the global batch; the result depends on this number and not on the number "
      "of devices; a resumed run keeps the number in its checkpoint unless you set "
      "another; with more shards than devices each device computes several of them, one after "
      "the other, and needs memory for one (gradient accumulation); with async the default "
      "is 1, because one device computes all parts of a batch",
      from_to(1, 65536));
  section.add_choice("strategy", own.strategy,
                     {{StrategyName::mirrored, "mirrored"},
                      {StrategyName::async, "async"},
                      {StrategyName::pipeline, "pipeline"}},
                     "how devices share the work: mirrored, each computes a part of every batch; "
                     "async, each computes batches of its own, see [async]; pipeline, each has a "
                     "part of the model, see [pipeline]");
  section.add_choice("precision", own.precision,
                     {{Precision::float32, "float32"},
                      {Precision::bfloat16, "bfloat16"},
                      {Precision::float16, "float16"}},
                     "number format of the forward and backward pass; weights stay float32");
  return section;
}

Section data(DataRecipe& own, const Family& family) {
  Section section{"data", "What to train on.", {}};
  std::vector<std::string> kinds;
  std::vector<std::string> installed;
  std::string help;
  for (const DataKind& kind : family.kinds) {
    help += (kinds.empty() ? "" : "; ") + kind.name + ": " + kind.about;
    kinds.push_back(kind.name);
    if (kind.installed) installed.push_back(kind.name);
  }
  add_words(section, "kind", own.kind, kinds, help).of_family = true;
  section
      .add("path", own.path,
           "file or folder of the data" +
               (installed.empty()
                    ? ""
                    : "; empty: where the kind is installed (" + listed(installed) + ")"))
      .of_family = true;
  section.add("batch", own.batch, "images or text pairs in one step, over all devices together",
              from_to(1, 1 << 20));
  section.add("test_batch", own.test_batch, "images or text pairs in one batch of an evaluation",
              from_to(1, 1 << 20));
  section.add("workers", own.workers, "threads that prepare batches", from_to(1, 1024));
  section.add("prefetch", own.prefetch, "batches prepared ahead of time", from_to(1, 1024));
  return section;
}

/// Into the section of the same name, or else as a section of its own before those of training.
void add_own(std::vector<Section>& all, Section own) {
  for (Field& field : own.fields) field.of_family = true;
  const auto same = std::ranges::find(all, own.name, &Section::name);
  if (same != all.end())
    same->fields.insert(same->fields.end(), own.fields.begin(), own.fields.end());
  else
    all.insert(std::ranges::find(all, "init", &Section::name), std::move(own));
}

}  // namespace

std::vector<Section> sections(Recipe& recipe) {
  const Family& family = family_named(recipe.family);
  std::vector<Section> all = {top(recipe), data(recipe.data, family)};
  for (Section& section : training_sections(recipe)) all.push_back(std::move(section));
  for (Section& section : family.sections(recipe.own)) add_own(all, std::move(section));
  return all;
}

Field& add_words(Section& section, const std::string& key, std::string& target,
                 const std::vector<std::string>& words, std::string help) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const std::string& word : words) values.emplace_back(word, word);
  return section.add_choice(key, target, values, std::move(help));
}

Field& add_rest(Section& section, Rest& rest) {
  return section.add_choice(
      "rest", rest,
      {{Rest::merge, "merge"},
       {Rest::spread, "spread"},
       {Rest::drop, "drop"},
       {Rest::keep, "keep"}},
      "what to do when the last batch of an epoch is smaller; merge: add it to the batch before if "
      "it has fewer than two images for each shard, which batch normalisation may not be able to "
      "train on; spread: make all batches about equally large; drop: leave it out; keep: train on "
      "it as it is");
}

const Field* find_field(const std::vector<Section>& sections, const std::string& name) {
  for (const Section& section : sections)
    for (const Field& field : section.fields)
      if (field.name == name) return &field;
  return nullptr;
}

std::string name_of(const std::vector<Section>& sections, const void* address) {
  for (const Section& section : sections)
    for (const Field& field : section.fields)
      if (field.address == address) return field.name;
  return "";
}

}  // namespace lockstep::apps
