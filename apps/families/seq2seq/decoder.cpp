#include "families/seq2seq/decoder.h"

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>
#include <lockstep/text/buckets.h>
#include <lockstep/text/evaluation.h>

#include <algorithm>
#include <iostream>
#include <numeric>

#include "families/seq2seq/data.h"
#include "families/seq2seq/model.h"
#include "load_model.h"
#include "run_folder.h"

namespace lockstep::apps {
namespace {

constexpr std::size_t kMostTokens = 1000;  // of a source
constexpr std::size_t kTexts = 320;        // that are decoded at a time: rows times beam

}  // namespace

TextDecoder::TextDecoder(const DecodeFlags& flags)
    : temperature_(flags.temperature),
      top_k_(flags.top_k),
      seed_(static_cast<std::uint64_t>(flags.seed)) {
  const FoundCheckpoint found =
      find_checkpoint(flags.path, flags.newest ? Which::newest : Which::best);
  const Checkpoint& checkpoint = found.checkpoint;
  const auto tokens = checkpoint.files.find(kTokensFile);
  if (tokens == checkpoint.files.end())
    throw ConfigError("'" + found.path + "' does not write texts: it has no " + kTokensFile +
                      ". `lockstep train chat` and `lockstep train translate` make such runs.");
  const Recipe recipe = kept_recipe(checkpoint.manifest.recipe, found.path + "'s recipe");
  tokens_ = text::load_tokenizer(tokens->second, found.path + "/" + kTokensFile);
  const auto& its = own<Seq2SeqRecipe>(recipe);
  model_ = std::make_shared<nn::Seq2Seq>(model_options(its.network, tokens_->size()));
  const bool with_averages = takes_averages(flags.weights, found);
  load_weights(*model_, checkpoint.state, with_averages);
  model_->eval();
  search_ = search_options(its.decode);
  if (flags.beam > 0) search_.width = flags.beam;
  if (flags.max_length > 0) search_.max_length = flags.max_length;
  about_ = found.path + (with_averages ? ", averaged weights" : "");
}

std::vector<std::vector<text::Hypothesis>> TextDecoder::decode_batch(
    const std::vector<std::vector<std::int32_t>>& sources, int best) {
  std::vector<text::TokenPair> pairs;
  for (const auto& source : sources) pairs.push_back({source, {}});
  const text::SequenceBatch batch = text::padded_batch(pairs);
  const auto begin = [&] { return nn::token_model(*model_, batch.source, batch.lengths); };
  text::BeamOptions how = search_;
  how.width = std::max(how.width, best);
  how.best = best;
  if (temperature_ <= 0) return text::search(*begin(), how);
  std::vector<std::vector<text::Hypothesis>> drawn(sources.size());
  for (int i = 0; i < best; ++i) {
    const auto found = sample(*begin(), {.temperature = temperature_,
                                         .top_k = top_k_,
                                         .max_length = how.max_length,
                                         .seed = seed_++});
    for (std::size_t row = 0; row < found.size(); ++row) drawn[row].push_back(found[row]);
  }
  return drawn;
}

std::vector<std::vector<DecodedText>> TextDecoder::decode(const std::vector<std::string>& texts,
                                                          int best) {
  std::vector<std::vector<DecodedText>> result(texts.size());
  std::vector<std::vector<std::int32_t>> tokens;
  for (const std::string& text : texts) {
    tokens.push_back(tokens_->encode(text));
    if (tokens.back().size() <= kMostTokens) continue;
    std::cerr << "note: a text of " << tokens.back().size() << " tokens is cut to " << kMostTokens
              << "\n";
    tokens.back().resize(kMostTokens);
  }
  const std::size_t rows =
      std::max<std::size_t>(1, kTexts / static_cast<std::size_t>(std::max(search_.width, best)));
  std::vector<std::size_t> order(texts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::erase_if(order, [&](std::size_t i) { return tokens[i].empty(); });
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return tokens[i].size(); });
  for (std::size_t begin = 0; begin < order.size(); begin += rows) {
    const std::size_t end = std::min(begin + rows, order.size());
    std::vector<std::vector<std::int32_t>> sources;
    for (std::size_t i = begin; i < end; ++i) sources.push_back(tokens[order[i]]);
    const auto found = decode_batch(sources, best);
    for (std::size_t i = begin; i < end; ++i)
      for (const text::Hypothesis& hypothesis : found[i - begin])
        result[order[i]].push_back({tokens_->decode(hypothesis.tokens), hypothesis.score});
  }
  return result;
}

}  // namespace lockstep::apps
