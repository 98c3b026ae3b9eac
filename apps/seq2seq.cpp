// The family `seq2seq`: texts to texts.

#include <lockstep/input.h>
#include <lockstep/nn/seq2seq.h>
#include <lockstep/text/attention_picture.h>
#include <lockstep/text/bleu.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "family.h"
#include "search.h"
#include "text_data.h"
#include "text_pairs_of.h"

namespace lockstep::apps {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr std::size_t kSamples = 5;  // shown of an evaluation

/// What was written for one source.
struct Sample {
  std::string source;
  std::string target;
  std::string written;
};

/// The result of evaluating some batches; parts are merged with +=.
struct Written {
  Metrics metrics = {};
  text::BleuCounts bleu = {};
  text::BleuCounts copied = {};  ///< of the sources as they are: what BLEU is worth without a model
  std::vector<Sample> samples = {};
  std::optional<Image> attention = std::nullopt;

  Written& operator+=(const Written& other) {
    metrics += other.metrics;
    bleu += other.bleu;
    copied += other.copied;
    for (const Sample& sample : other.samples)
      if (samples.size() < kSamples) samples.push_back(sample);
    if (!attention) attention = other.attention;
    return *this;
  }
};

std::uint64_t hash_of(std::span<const std::int32_t> tokens) {
  return text_hash({reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()});
}

/// Which targets the data has for a source: a sorted list of hashes.
class Answers {
 public:
  /// Of pairs as they are in batches: cut to `longest`, if they are.
  Answers(const text::PairFile& pairs, const std::optional<text::Bucket>& longest) {
    const auto cut = [](std::span<const std::int32_t> tokens, std::int64_t most) {
      return tokens.first(std::min(tokens.size(), static_cast<std::size_t>(most)));
    };
    for (std::int64_t i = 0; i < pairs.size(); ++i) {
      text::TokenPair pair = pairs[i];
      if (longest)
        pair = {cut(pair.source, longest->source), cut(pair.target, longest->target - 1)};
      known_.emplace_back(hash_of(pair.source), hash_of(pair.target));
    }
    std::ranges::sort(known_);
  }

  bool has(const Tokens& source, const Tokens& target) const {
    return std::ranges::binary_search(known_, std::pair(hash_of(source), hash_of(target)));
  }

  /// So that each source counts once, however many targets it has.
  double weight(const Tokens& source) const {
    const auto own = std::ranges::equal_range(known_, hash_of(source), {},
                                              &std::pair<std::uint64_t, std::uint64_t>::first);
    return own.empty() ? 1 : 1 / static_cast<double>(own.size());
  }

 private:
  std::vector<std::pair<std::uint64_t, std::uint64_t>> known_;
};

/// The tokens of a row without marks and padding.
Tokens row_of(const torch::Tensor& rows, std::int64_t row) {
  const auto numbers = rows.accessor<std::int64_t, 2>()[row];
  Tokens tokens;
  for (std::int64_t i = 0; i < rows.size(1); ++i)
    if (numbers[i] != text::kPad && numbers[i] != text::kBegin && numbers[i] != text::kEnd)
      tokens.push_back(static_cast<std::int32_t>(numbers[i]));
  return tokens;
}

/// At most the first `most` rows.
text::SequenceBatch first_rows(text::SequenceBatch batch, std::int64_t most) {
  const std::int64_t rows = std::min(most, batch.source.size(0));
  for (torch::Tensor* tensor : {&batch.source, &batch.lengths, &batch.target})
    *tensor = tensor->narrow(0, 0, rows);
  return batch;
}

std::string bucket_name(const text::Bucket& bucket) {
  return std::to_string(bucket.source) + "-" + std::to_string(bucket.target);
}

/// Evaluates a batch: the loss of all, and for the first batches what the model writes.
class Evaluator {
 public:
  Evaluator(const Recipe& recipe, const TextData& data)
      : decode_(recipe.decode),
        tokens_(data.tokens),
        buckets_(data.test.buckets()),
        answers_(std::make_shared<const Answers>(
            data.test_pairs, recipe.text.cut ? std::optional(buckets_.back()) : std::nullopt)),
        batch_rows_(recipe.data.test_batch) {}

  Written operator()(nn::Seq2Seq& model, const text::SequenceBatch& batch) const {
    Written result;
    const Loss loss = nn::sequence_loss(model, batch);
    const Mean mean{loss.sum.item<double>(), loss.weight};
    result.metrics["loss"] = mean;
    result.metrics["perplexity/" + bucket_name(buckets_[static_cast<std::size_t>(batch.bucket)])] =
        mean;
    const std::int64_t left = decode_.tested - batch.index * batch_rows_;
    if (left > 0) write(model, first_rows(batch, left), result);
    return result;
  }

 private:
  void write(nn::Seq2Seq& model, const text::SequenceBatch& batch, Written& result) const {
    const auto writing = nn::token_model(model, batch.source, batch.lengths);
    const bool drawn = batch.index == 0;  // one picture is enough
    const auto found = search(*writing, decode_, 1, /*keep_attention=*/drawn);
    const torch::Tensor sources = batch.source.cpu(), targets = batch.target.cpu();
    for (std::int64_t row = 0; row < sources.size(0); ++row) {
      const text::Hypothesis& best = found[static_cast<std::size_t>(row)].front();
      const Tokens source = row_of(sources, row), target = row_of(targets, row);
      const Sample sample{tokens_->decode(source), tokens_->decode(target),
                          tokens_->decode(best.tokens)};
      // Encoded again: the same text may be written with other tokens.
      const double weight = answers_->weight(source);
      const bool exact = answers_->has(source, tokens_->encode(sample.written));
      result.metrics["exact"] += {exact ? weight : 0, weight};
      result.bleu += text::bleu_counts(sample.written, sample.target);
      result.copied += text::bleu_counts(sample.source, sample.target);
      if (result.samples.size() < kSamples) result.samples.push_back(sample);
      if (drawn && row == 0) result.attention = picture(best, source);
    }
  }

  Image picture(const text::Hypothesis& best, const Tokens& source) const {
    const auto pieces = [&](const Tokens& tokens) {
      std::vector<std::string> texts;
      for (const std::int32_t token : tokens) texts.push_back(tokens_->piece(token));
      return texts;
    };
    std::vector<std::string> target = pieces(best.tokens);
    if (best.ended) target.emplace_back("(end)");
    const auto columns = static_cast<std::int64_t>(source.size());
    return text::attention_picture(best.attention.narrow(1, 0, columns).cpu(), pieces(source),
                                   target);
  }

  DecodeRecipe decode_;
  std::shared_ptr<const text::Tokenizer> tokens_;
  std::vector<text::Bucket> buckets_;
  std::shared_ptr<const Answers> answers_;
  std::int64_t batch_rows_;
};

std::string sample_text(const std::vector<Sample>& samples) {
  std::string text;
  for (const Sample& sample : samples)
    text += "- source: " + sample.source + "\n  written: " + sample.written +
            "\n  data: " + sample.target + "\n";
  return text;
}

Summary summarise(const Written& result, bool with_bleu) {
  Summary made;
  for (const auto& [name, mean] : result.metrics)
    made.metrics[name] = name.starts_with("perplexity") ? std::exp(mean.value()) : mean.value();
  made.metrics["perplexity"] = std::exp(made.metrics["loss"]);
  if (with_bleu && result.bleu.reference_words > 0) {
    made.metrics["bleu"] = result.bleu.value();
    made.metrics["bleu_of_copying"] = result.copied.value();
  }
  if (result.attention) made.images["attention"] = *result.attention;
  if (!result.samples.empty()) made.texts["samples"] = sample_text(result.samples);
  return made;
}

}  // namespace

std::unique_ptr<Job> seq2seq_job(const Recipe& recipe, MirroredOptions options,
                                 const JobFiles& files) {
  const TextData data = text_data(recipe, files);
  const nn::Seq2SeqLossOptions loss{.label_smoothing = recipe.seq2seq.label_smoothing,
                                    .samples = recipe.seq2seq.samples};
  const input::Prefetch ahead{.depth = recipe.data.prefetch, .workers = recipe.data.workers};
  input::Prefetch once = ahead;
  once.epochs = 1;
  auto job = std::make_unique<StrategyJob<Mirrored<nn::Seq2Seq>, text::SequenceBatch>>(
      std::make_unique<Mirrored<nn::Seq2Seq>>(std::move(options),
                                              model_options(recipe, data.tokens->size())),
      input::prefetch(data.train, ahead),
      [=](nn::Seq2Seq& model, const text::SequenceBatch& shard) {
        return nn::sequence_loss(model, shard, loss);
      },
      data.train.size());
  job->add_file(kTokensFile, data.tokens->bytes());
  const bool with_bleu = recipe.evaluate.metric == Metric::bleu;
  job->add_set(
      data.held_out ? "test" : "train", data.test.size(),
      [=, test = data.test] { return input::prefetch(test, once); }, Evaluator(recipe, data),
      [=](const Written& result) { return summarise(result, with_bleu); });
  return job;
}

}  // namespace lockstep::apps
