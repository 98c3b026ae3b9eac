#include "families/seq2seq/recipe.h"

#include <algorithm>

#include "families/seq2seq/family.h"
#include "recipe/family.h"

namespace lockstep::apps {
namespace {

Section data(Seq2SeqRecipe& own) {
  Section section{"data", "", {}};
  section.add("test_path", own.test_path,
              "the same as path, to evaluate on; empty: what text.held_out says");
  section.add("target_path", own.target_path, "parallel: the file with the targets").kinds = {
      "parallel"};
  section
      .add("test_target_path", own.test_target_path,
           "parallel: the targets that belong to test_path")
      .kinds = {"parallel"};
  return section;
}

Section texts(TextRecipe& own) {
  Section section{"text", "Text pairs, tokens and buckets.", {}};
  section.add("language", own.language,
              "chatterbot: a folder of the corpus, such as english or chinese; gettext: the target "
              "language, such as fr");
  section.add("held_out", own.held_out,
              "share of the sources to keep for evaluation when data.test_path is empty, chosen by "
              "hash; 0: evaluate on the training pairs",
              from_to_below(0, 1));
  section.add("unique", own.unique, "count a pair once, however often it occurs");
  section.add(
      "refuse_bad", own.refuse_bad,
      "stop at a pair with bad UTF-8, an empty side or no tab (false: skip and count such pairs)");
  section.add_choice(
      "tokens", own.tokens,
      {{text::TokenKind::sentencepiece, "sentencepiece"},
       {text::TokenKind::characters, "characters"}},
      "how to cut texts into tokens; learned from the training texts when the run first starts");
  section.add("vocabulary", own.vocabulary, "largest number of different tokens",
              from_to(8, kMany));
  section.add("source_lengths", own.source_lengths,
              "for each bucket, the most tokens in a source; ascending", from_to(1, kMany));
  section.add("target_lengths", own.target_lengths,
              "for each bucket, the most tokens in a target, end mark included; ascending",
              from_to(2, kMany));
  section.add("quantiles", own.quantiles,
              "make this many buckets with about equally many pairs, instead of source_lengths and "
              "target_lengths (0: off)",
              from_to(0, 1024));
  section.add("cut", own.cut, "cut pairs that fit in no bucket (false: leave them out)");
  section.add("batch_tokens", own.batch_tokens,
              "tokens in one step, padding included, so that short pairs come in larger batches "
              "(0: data.batch pairs, whatever their length)",
              at_least(0));
  return section;
}

Section network(NetworkRecipe& own) {
  Section section{"seq2seq", "The model.", {}};
  section.add("layers", own.layers, "layers of the encoder, and of the decoder", from_to(1, 64));
  section.add("hidden", own.hidden, "units in each layer", from_to(1, 65536));
  section.add("embedding", own.embedding, "size of a token's embedding", from_to(1, 65536));
  section.add_choice("cell", own.cell, {{CellName::lstm, "lstm"}, {CellName::gru, "gru"}},
                     "cell of all layers");
  section.add("bidirectional", own.bidirectional,
              "let the encoder read in both directions, with half of the units each");
  section.add_choice("attention", own.attention,
                     {{AttentionName::dot, "dot"},
                      {AttentionName::general, "general"},
                      {AttentionName::bahdanau, "bahdanau"}},
                     "dot and general are Luong's; bahdanau runs token by token and is slower");
  section.add("input_feeding", own.input_feeding,
              "feed each step's attention output into the next step; runs token by token");
  section.add("keep", own.keep, "dropout: probability of keeping a value (1: no dropout)",
              Range{.low = 0, .high = 1, .without_low = true});
  section.add("tied", own.tied, "share one table between both embeddings and the output");
  section.add("label_smoothing", own.label_smoothing,
              "probability that the targets give to all other tokens", from_to_below(0, 1));
  section.add(
      "samples", own.samples,
      "sampled softmax: train on this many tokens of the vocabulary in each step (0: on all)",
      from_to(0, kMany));
  return section;
}

Section decode(DecodeRecipe& own) {
  Section section{"decode", "How to decode texts.", {}};
  section.add("beam", own.beam, "width of the beam search (1: greedy)", from_to(1, 1024));
  section.add("max_length", own.max_length, "most tokens in a decoded text", from_to(1, 65536));
  section.add("length_penalty", own.length_penalty,
              "beam search: values above 0 favour longer texts (GNMT's alpha)", at_least(0));
  section.add(
      "coverage_penalty", own.coverage_penalty,
      "beam search: values above 0 favour texts that attend to the whole source (GNMT's beta)",
      at_least(0));
  section.add("tested", own.tested, "how many texts an evaluation decodes and scores",
              from_to(0, kMany));
  return section;
}

std::optional<Problem> parallel_problem(const Seq2SeqRecipe& own, const Names& name) {
  if (own.target_path.empty())
    return Problem{{&own.target_path},
                   "is empty; set " + name(&own.target_path) + " to the file of the targets"};
  if (own.test_path.empty() != own.test_target_path.empty())
    return Problem{{&own.test_target_path, &own.test_path},
                   "and " + name(&own.test_path) + " belong together: set both, or none"};
  return std::nullopt;
}

std::optional<Problem> text_problem(const TextRecipe& text, const Names& name) {
  for (const auto* lengths : {&text.source_lengths, &text.target_lengths})
    if (lengths->empty() || !std::ranges::is_sorted(*lengths))
      return Problem{{lengths}, "has to have at least one number, and to ascend"};
  if (text.source_lengths.size() == text.target_lengths.size()) return std::nullopt;
  return Problem{{&text.target_lengths, &text.source_lengths},
                 "has " + std::to_string(text.target_lengths.size()) + " numbers and " +
                     name(&text.source_lengths) + " has " +
                     std::to_string(text.source_lengths.size()) +
                     "; a bucket is one of each: give as many"};
}

std::optional<Problem> network_problem(const NetworkRecipe& network, const Names& name) {
  if (network.label_smoothing > 0 && network.samples > 0)
    return Problem{{&network.label_smoothing, &network.samples},
                   "does not go with " + name(&network.samples) +
                       ", which leaves out most of the tokens: set one of them to 0"};
  if (network.bidirectional && network.hidden % 2 != 0)
    return Problem{{&network.hidden, &network.bidirectional},
                   "has to be even, for each direction has half of it"};
  return std::nullopt;
}

std::optional<Problem> problem(const Recipe& recipe, const Names& name) {
  const auto& its = own<Seq2SeqRecipe>(recipe);
  std::optional<Problem> found;
  if (recipe.data.kind == "parallel") found = parallel_problem(its, name);
  if (!found) found = text_problem(its.text, name);
  if (!found) found = network_problem(its.network, name);
  if (!found && recipe.evaluate.metric != "loss" && its.decode.tested == 0)
    found = Problem{{&its.decode.tested, &recipe.evaluate.metric},
                    "is 0, and " + name(&recipe.evaluate.metric) +
                        " is of texts that an evaluation decodes: set it, such as to 500"};
  return found;
}

std::vector<Section> own_sections(std::any& sections) {
  auto& own = std::any_cast<Seq2SeqRecipe&>(sections);
  return {data(own), texts(own.text), network(own.network), decode(own.decode)};
}

}  // namespace

Family Seq2SeqFamily::recipe() {
  return {.name = "seq2seq",
          .about = "answers or translates texts",
          .kinds = {{.name = "tsv", .about = "lines of source, tab and target"},
                    {.name = "parallel", .about = "two files line by line"},
                    {.name = "chatterbot", .about = "chatterbot-corpus's YAML", .installed = true},
                    {.name = "gettext",
                     .about = "gettext's compiled catalogues (.mo)",
                     .installed = true}},
          .metrics = {{.name = "loss",
                       .about = "the mean cross entropy of a token",
                       .higher_is_better = false},
                      {.name = "exact", .about = "the share of texts that the data has"},
                      {.name = "bleu", .about = "BLEU of the texts"}},
          .own = Seq2SeqRecipe{},
          .sections = own_sections,
          .problem = problem,
          .stages = {2, 3},
          .grow_batch = [](std::any& sections, int times) {
            std::any_cast<Seq2SeqRecipe&>(sections).text.batch_tokens *= times;
          }};
}

}  // namespace lockstep::apps
