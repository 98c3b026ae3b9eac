#include <lockstep/nn/projection.h>
#include <lockstep/nn/seq2seq.h>

namespace lockstep::nn {

using torch::Tensor;

namespace {

/// Real tokens of each target, kEnd included.
Tensor counts_of(const text::SequenceBatch& batch) {
  return batch.target.slice(1, 1).ne(text::kPad).sum(1);
}

}  // namespace

// Columns that are padding in every row of this shard cost nothing.

Seq2Seq::Encoded encode_part(Seq2Seq& model, const text::SequenceBatch& batch) {
  if (counts_of(batch).sum().item<std::int64_t>() == 0) return {};
  const auto longest = batch.lengths.max().item<std::int64_t>();
  return model.encode(batch.source.slice(1, 0, longest), batch.lengths);
}

LabelledFeatures decode_part(Seq2Seq& model, const text::SequenceBatch& batch,
                             const Seq2Seq::Encoded& encoded) {
  if (!encoded.outputs.defined()) return {};
  const Tensor counts = counts_of(batch);
  const auto most = counts.max().item<std::int64_t>();
  Tensor features = model.decode(encoded, batch.target.slice(1, 0, most)).flatten(0, 1);
  Tensor labels = batch.target.slice(1, 1, most + 1).flatten();
  if (counts.sum().item<std::int64_t>() < labels.size(0)) {
    const Tensor real = labels.ne(text::kPad).nonzero().squeeze(1);
    features = features.index_select(0, real);
    labels = labels.index_select(0, real);
  }
  return {features, labels};
}

Loss project_part(Seq2Seq& model, const LabelledFeatures& decoded,
                  const Seq2SeqLossOptions& options) {
  const Tensor &weight = model.output_weight, &bias = model.output_bias;
  if (!decoded.features.defined()) return {torch::zeros({}, bias.options()), 0};
  const auto& [features, labels] = decoded;
  const bool sampled = model.is_training() && options.samples > 0;
  return {sampled ? sampled_cross_entropy(features, weight, bias, labels, options.samples)
                  : projection_cross_entropy(features, weight, bias, labels,
                                             {.label_smoothing = options.label_smoothing}),
          static_cast<double>(labels.size(0))};
}

Loss sequence_loss(Seq2Seq& model, const text::SequenceBatch& batch,
                   const Seq2SeqLossOptions& options) {
  return project_part(model, decode_part(model, batch, encode_part(model, batch)), options);
}

}  // namespace lockstep::nn
