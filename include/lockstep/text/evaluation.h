#pragma once

// Evaluates a model that maps texts to texts: loss and perplexity of all pairs; for some of them
// also decoded texts, with exact matches, BLEU, samples, and a picture of the attention.
//
//   job.add_set("test", batches.size(), open, Evaluator(tokens, pairs, batches.buckets(), {}),
//               [](const Evaluated& result) { return summarise(result); });

#include <lockstep/image.h>
#include <lockstep/job.h>
#include <lockstep/loss.h>
#include <lockstep/metrics.h>
#include <lockstep/text/bleu.h>
#include <lockstep/text/buckets.h>
#include <lockstep/text/decode.h>
#include <lockstep/text/pair_file.h>
#include <lockstep/text/sequence_batch.h>
#include <lockstep/text/tokens.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace lockstep::text {

/// For each row the best hypotheses: a beam search, or a greedy one when the width is 1.
std::vector<std::vector<Hypothesis>> search(TokenModel& model, const BeamOptions& options);

/// Which targets some pairs have for a source: 16 bytes per pair, by hashes.
class Answers {
 public:
  /// Of pairs as they are in batches: cut to `longest`, if they are.
  explicit Answers(const PairFile& pairs, const std::optional<Bucket>& longest = std::nullopt);

  bool has(std::span<const std::int32_t> source, std::span<const std::int32_t> target) const;

  /// One over the number of its targets, so that each source counts once however many it has.
  double weight(std::span<const std::int32_t> source) const;

 private:
  std::vector<std::pair<std::uint64_t, std::uint64_t>> known_;  // sorted
};

/// What was decoded for one source.
struct DecodedPair {
  std::string source;
  std::string target;  ///< of the data
  std::string decoded;

  auto fields() { return std::tie(source, target, decoded); }  ///< see lockstep/travel.h
};

/// The result of evaluating some batches; parts are merged with +=.
struct Evaluated {
  Metrics metrics = {};  ///< "loss", "exact", and the loss of each bucket as "perplexity/5-10"
  BleuCounts bleu = {};
  BleuCounts copied = {};                 ///< of the sources themselves: BLEU without a model
  std::vector<DecodedPair> samples = {};  ///< the first few
  std::optional<Image> attention = std::nullopt;  ///< of the first text

  Evaluated& operator+=(const Evaluated& other);
  auto fields() {
    return std::tie(metrics, bleu, copied, samples, attention);
  }  ///< see lockstep/travel.h
};

/// For people: perplexities are the exponentials of the losses. BLEU and "bleu_of_copying" only
/// `with_bleu`, because they mean little for answers.
Summary summarise(const Evaluated& result, bool with_bleu = true);

struct EvaluationOptions {
  BeamOptions search = {.width = 1};
  std::int64_t decoded = 500;    ///< texts that are decoded and scored: those of the first batches
  std::int64_t batch_rows = 64;  ///< of a batch, by which those are counted
  bool cut = false;              ///< as the batches are: TooLong::cut
};

/// Evaluates a batch. May be used from several threads at once.
class Evaluator {
 public:
  /// `pairs` are those that the batches are made of.
  Evaluator(std::shared_ptr<const Tokenizer> tokens, const PairFile& pairs,
            std::vector<Bucket> buckets, const EvaluationOptions& options);

  /// The model has sequence_loss(model, batch) and token_model(model, source, lengths), as
  /// nn::Seq2Seq.
  template <class Model>
  Evaluated operator()(Model& model, const SequenceBatch& batch) const {
    return evaluate(batch, sequence_loss(model, batch), [&](const SequenceBatch& rows) {
      return token_model(model, rows.source, rows.lengths);
    });
  }

 private:
  using Begin = std::function<std::unique_ptr<TokenModel>(const SequenceBatch&)>;

  Evaluated evaluate(const SequenceBatch& batch, const Loss& loss, const Begin& begin) const;
  void decode(const SequenceBatch& batch, const Begin& begin, Evaluated& result) const;
  Image picture(const Hypothesis& best, std::span<const std::int32_t> source) const;

  std::shared_ptr<const Tokenizer> tokens_;
  std::vector<Bucket> buckets_;
  EvaluationOptions options_;
  std::shared_ptr<const Answers> answers_;
};

}  // namespace lockstep::text
