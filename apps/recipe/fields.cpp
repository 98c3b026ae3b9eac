#include "fields.h"

namespace lockstep::apps {
namespace {

Section top(Recipe& own) {
  Section section{"", "The training as a whole.", {}};
  section.add_choice("family", own.family,
                     {{Family::classify, "classify"}, {Family::seq2seq, "seq2seq"}},
                     "what is trained: classify puts images into classes, seq2seq answers or "
                     "translates texts");
  section.add("seed", own.seed,
              "of initial weights, dropout, order of the data and augmentation; the same seed and "
              "shards give the same result",
              at_least(0));
  section.add("shards", own.shards,
              "parts of the global batch: what the result depends on, where the number of devices "
              "does not matter; a run that resumes keeps its checkpoint's number if none is set",
              from_to(1, 65536));
  section.add_choice("precision", own.precision,
                     {{Precision::float32, "float32"},
                      {Precision::bfloat16, "bfloat16"},
                      {Precision::float16, "float16"}},
                     "of forward and backward; the weights stay float32");
  return section;
}

Section data(DataRecipe& own) {
  Section section{"data", "What it is trained on.", {}};
  section.add_choice("kind", own.kind,
                     {{DataKind::fashion_mnist, "fashion_mnist"},
                      {DataKind::cifar10, "cifar10"},
                      {DataKind::folder, "folder"},
                      {DataKind::tsv, "tsv"},
                      {DataKind::parallel, "parallel"},
                      {DataKind::chatterbot, "chatterbot"},
                      {DataKind::gettext, "gettext"}},
                     "of classify: Fashion-MNIST's IDX files, CIFAR-10's binary files, or a folder "
                     "of JPEG and PNG images with one folder a class; of seq2seq: lines of source, "
                     "tab and target, two files line by line, chatterbot-corpus's YAML, or "
                     "gettext's compiled catalogues (.mo)");
  section.add("path", own.path,
              "file or folder of the data; empty: where fashion_mnist, chatterbot and gettext are "
              "installed");
  section.add("target_path", own.target_path, "of kind parallel: the file of the targets");
  section.add("test_path", own.test_path,
              "of kind folder: the folder of the test images; of texts: the same as path, to test "
              "on");
  section.add("test_target_path", own.test_target_path,
              "of kind parallel: the targets that belong to test_path");
  section.add("batch", own.batch, "images or pairs of texts of a step, over all devices",
              from_to(1, 1 << 20));
  section.add("test_batch", own.test_batch, "images or pairs at one go when evaluating",
              from_to(1, 1 << 20));
  section.add("augment", own.augment, "crop and flip the training images at random");
  section.add("size", own.size, "of kind folder: side of the images, in pixels", from_to(8, 4096));
  section.add("workers", own.workers, "threads that make batches", from_to(1, 1024));
  section.add("prefetch", own.prefetch, "batches made ahead", from_to(1, 1024));
  return section;
}

Section text(TextRecipe& own) {
  Section section{"text", "Of seq2seq: pairs of texts, their tokens and buckets.", {}};
  section.add("language", own.language,
              "of chatterbot: a folder of the corpus, such as english or chinese; of gettext: the "
              "language to translate to, such as fr");
  section.add("held_out", own.held_out,
              "share of the sources, chosen by their hash, that is not trained on but tested, when "
              "there is no data.test_path; 0: it is tested on what it was trained on",
              from_to_below(0, 1));
  section.add("unique", own.unique, "a pair that is there more than once counts once");
  section.add("refuse_bad", own.refuse_bad,
              "end with an error at a pair with bad UTF-8, an empty side or no tab; else such "
              "pairs are counted and skipped");
  section.add_choice(
      "tokens", own.tokens,
      {{TokenKind::sentencepiece, "sentencepiece"}, {TokenKind::characters, "characters"}},
      "what texts are cut into; learned from the training texts at the first start");
  section.add("vocabulary", own.vocabulary, "different tokens, at most", from_to(8, kMany));
  section.add("source_lengths", own.source_lengths,
              "of the buckets: most tokens of a source, ascending", from_to(1, kMany));
  section.add("target_lengths", own.target_lengths,
              "of the buckets: most tokens of a target with its end, ascending", from_to(2, kMany));
  section.add("quantiles", own.quantiles,
              "so many buckets of about as many pairs each, in place of the lengths above; 0: none",
              from_to(0, 1024));
  section.add("cut", own.cut, "cut pairs that are too long for every bucket; else leave them out");
  section.add("batch_tokens", own.batch_tokens,
              "tokens of a step, padding included: batches of short pairs have more rows; 0: "
              "data.batch rows whatever their length",
              at_least(0));
  return section;
}

Section seq2seq(Seq2SeqRecipe& own) {
  Section section{"seq2seq", "Of seq2seq: the model.", {}};
  section.add("layers", own.layers, "of the encoder and of the decoder", from_to(1, 64));
  section.add("hidden", own.hidden, "units of a layer", from_to(1, 65536));
  section.add("embedding", own.embedding, "numbers that stand for a token", from_to(1, 65536));
  section.add_choice("cell", own.cell, {{CellName::lstm, "lstm"}, {CellName::gru, "gru"}},
                     "of all layers");
  section.add("bidirectional", own.bidirectional,
              "the encoder reads both ways, with half of the units each");
  section.add_choice("attention", own.attention,
                     {{AttentionName::dot, "dot"},
                      {AttentionName::general, "general"},
                      {AttentionName::bahdanau, "bahdanau"}},
                     "dot and general are Luong's; bahdanau goes token by token, and is slower");
  section.add("input_feeding", own.input_feeding,
              "each step also gets what the one before passed on; goes token by token");
  section.add("keep", own.keep, "of dropout: the probability to keep a number; 1: no dropout",
              Range{.low = 0, .high = 1, .without_low = true});
  section.add("tied", own.tied, "one table for both embeddings and the output");
  section.add("label_smoothing", own.label_smoothing,
              "probability that the targets leave to other tokens", from_to_below(0, 1));
  section.add("samples", own.samples,
              "train on so many tokens drawn from the vocabulary in place of all (sampled "
              "softmax); 0: all",
              from_to(0, kMany));
  return section;
}

Section decode(DecodeRecipe& own) {
  Section section{"decode", "Of seq2seq: how texts are written.", {}};
  section.add("beam", own.beam, "width of the beam search; 1: greedy", from_to(1, 1024));
  section.add("max_length", own.max_length, "most tokens of a text", from_to(1, 65536));
  section.add("length_penalty", own.length_penalty,
              "of a beam: above 0 favours longer texts (alpha of GNMT)", at_least(0));
  section.add("coverage_penalty", own.coverage_penalty,
              "of a beam: above 0 favours texts that looked at the whole source (beta of GNMT)",
              at_least(0));
  section.add("tested", own.tested, "texts that an evaluation writes and scores",
              from_to(0, kMany));
  return section;
}

Section model(ModelRecipe& own) {
  Section section{"model", "Of classify: the model.", {}};
  section.add_choice(
      "name", own.name,
      {{ModelName::convnet, "convnet"},
       {ModelName::resnet20, "resnet20"},
       {ModelName::resnet18, "resnet18"},
       {ModelName::resnet50, "resnet50"}},
      "convnet and resnet20 are for small images, resnet18 and resnet50 for 224x224");
  section.add("width", own.width, "of convnet: filters of the first layer", from_to(1, 4096));
  section.add("dropout", own.dropout, "of convnet: share of values dropped", from_to_below(0, 1));
  return section;
}

}  // namespace

// A family that needs more adds its struct to Recipe and its section here; recipes of the others
// may have it, and do not use it.
std::vector<Section> sections(Recipe& recipe) {
  std::vector<Section> all = {top(recipe),         data(recipe.data),       text(recipe.text),
                              model(recipe.model), seq2seq(recipe.seq2seq), decode(recipe.decode)};
  for (Section& section : training_sections(recipe)) all.push_back(std::move(section));
  return all;
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
