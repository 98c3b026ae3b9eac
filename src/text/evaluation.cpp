#include <lockstep/text/attention_picture.h>
#include <lockstep/text/evaluation.h>

#include <algorithm>
#include <cmath>

namespace lockstep::text {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr std::size_t kSamples = 5;  // shown of an evaluation

/// The tokens of a row without marks and padding.
Tokens row_of(const torch::Tensor& rows, std::int64_t row) {
  const auto numbers = rows.accessor<std::int64_t, 2>()[row];
  Tokens tokens;
  for (std::int64_t i = 0; i < rows.size(1); ++i)
    if (numbers[i] != kPad && numbers[i] != kBegin && numbers[i] != kEnd)
      tokens.push_back(static_cast<std::int32_t>(numbers[i]));
  return tokens;
}

/// At most the first `most` rows.
SequenceBatch first_rows(SequenceBatch batch, std::int64_t most) {
  const std::int64_t rows = std::min(most, batch.source.size(0));
  for (torch::Tensor* tensor : {&batch.source, &batch.lengths, &batch.target})
    *tensor = tensor->narrow(0, 0, rows);
  return batch;
}

std::string bucket_name(const Bucket& bucket) {
  return std::to_string(bucket.source) + "-" + std::to_string(bucket.target);
}

std::string text_of(const std::vector<DecodedPair>& samples) {
  std::string text;
  for (const DecodedPair& sample : samples)
    text += "- source: " + sample.source + "\n  decoded: " + sample.decoded +
            "\n  data: " + sample.target + "\n";
  return text;
}

}  // namespace

std::vector<std::vector<Hypothesis>> search(TokenModel& model, const BeamOptions& options) {
  if (options.width > 1) return beam_search(model, options);
  std::vector<std::vector<Hypothesis>> result;
  for (Hypothesis& found : greedy_search(model, options.max_length, options.keep_attention))
    result.push_back({std::move(found)});
  return result;
}

Evaluated& Evaluated::operator+=(const Evaluated& other) {
  metrics += other.metrics;
  bleu += other.bleu;
  copied += other.copied;
  for (const DecodedPair& sample : other.samples)
    if (samples.size() < kSamples) samples.push_back(sample);
  if (!attention) attention = other.attention;
  return *this;
}

Summary summarise(const Evaluated& result, bool with_bleu) {
  Summary made;
  for (const auto& [name, mean] : result.metrics)
    made.metrics[name] = name.starts_with("perplexity") ? std::exp(mean.value()) : mean.value();
  made.metrics["perplexity"] = std::exp(made.metrics["loss"]);
  if (with_bleu && result.bleu.reference_words > 0) {
    made.metrics["bleu"] = result.bleu.value();
    made.metrics["bleu_of_copying"] = result.copied.value();
  }
  if (result.attention) made.images["attention"] = *result.attention;
  if (!result.samples.empty()) made.texts["samples"] = text_of(result.samples);
  return made;
}

Evaluator::Evaluator(std::shared_ptr<const Tokenizer> tokens, const PairFile& pairs,
                     std::vector<Bucket> buckets, const EvaluationOptions& options)
    : tokens_(std::move(tokens)),
      buckets_(std::move(buckets)),
      options_(options),
      answers_(std::make_shared<const Answers>(
          pairs, options.cut ? std::optional(buckets_.back()) : std::nullopt)) {}

Evaluated Evaluator::evaluate(const SequenceBatch& batch, const Loss& loss,
                              const Begin& begin) const {
  Evaluated result;
  const Mean mean{loss.sum.item<double>(), loss.weight};
  result.metrics["loss"] = mean;
  result.metrics["perplexity/" + bucket_name(buckets_[static_cast<std::size_t>(batch.bucket)])] =
      mean;
  const std::int64_t left = options_.decoded - batch.index * options_.batch_rows;
  if (left > 0) decode(first_rows(batch, left), begin, result);
  return result;
}

void Evaluator::decode(const SequenceBatch& batch, const Begin& begin, Evaluated& result) const {
  BeamOptions options = options_.search;
  options.best = 1;
  options.keep_attention = batch.index == 0;  // one picture is enough
  const auto found = search(*begin(batch), options);
  const torch::Tensor sources = batch.source.cpu(), targets = batch.target.cpu();
  for (std::int64_t row = 0; row < sources.size(0); ++row) {
    const Hypothesis& best = found[static_cast<std::size_t>(row)].front();
    const Tokens source = row_of(sources, row), target = row_of(targets, row);
    const DecodedPair sample{tokens_->decode(source), tokens_->decode(target),
                             tokens_->decode(best.tokens)};
    // Encoded again: the same text may be decoded from other tokens.
    const double weight = answers_->weight(source);
    const bool exact = answers_->has(source, tokens_->encode(sample.decoded));
    result.metrics["exact"] += {exact ? weight : 0, weight};
    result.bleu += bleu_counts(sample.decoded, sample.target);
    result.copied += bleu_counts(sample.source, sample.target);
    if (result.samples.size() < kSamples) result.samples.push_back(sample);
    if (best.attention.defined() && row == 0) result.attention = picture(best, source);
  }
}

Image Evaluator::picture(const Hypothesis& best, std::span<const std::int32_t> source) const {
  const auto pieces = [&](std::span<const std::int32_t> tokens) {
    std::vector<std::string> texts;
    for (const std::int32_t token : tokens) texts.push_back(tokens_->piece(token));
    return texts;
  };
  std::vector<std::string> target = pieces(best.tokens);
  if (best.ended) target.emplace_back("(end)");
  const auto columns = static_cast<std::int64_t>(source.size());
  return attention_picture(best.attention.narrow(1, 0, columns).cpu(), pieces(source), target);
}

}  // namespace lockstep::text
