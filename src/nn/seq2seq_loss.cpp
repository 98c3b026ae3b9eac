#include <lockstep/nn/projection.h>
#include <lockstep/nn/seq2seq.h>

namespace lockstep::nn {

using torch::Tensor;

Loss sequence_loss(Seq2Seq& model, const text::SequenceBatch& batch,
                   const Seq2SeqLossOptions& options) {
  const Tensor counts = batch.target.slice(1, 1).ne(text::kPad).sum(1);
  const auto tokens = counts.sum().item<std::int64_t>();
  if (tokens == 0) return {torch::zeros({}, model.output_bias.options()), 0};

  // Columns that are padding in every row of this shard cost nothing.
  const auto longest = batch.lengths.max().item<std::int64_t>();
  const auto most = counts.max().item<std::int64_t>();
  const auto encoded = model.encode(batch.source.slice(1, 0, longest), batch.lengths);
  Tensor features = model.decode(encoded, batch.target.slice(1, 0, most)).flatten(0, 1);
  Tensor labels = batch.target.slice(1, 1, most + 1).flatten();
  if (tokens < labels.size(0)) {
    const Tensor real = labels.ne(text::kPad).nonzero().squeeze(1);
    features = features.index_select(0, real);
    labels = labels.index_select(0, real);
  }
  const Tensor &weight = model.output_weight, &bias = model.output_bias;
  const bool sampled = model.is_training() && options.samples > 0;
  return {sampled ? sampled_cross_entropy(features, weight, bias, labels, options.samples)
                  : projection_cross_entropy(features, weight, bias, labels,
                                             {.label_smoothing = options.label_smoothing}),
          static_cast<double>(tokens)};
}

}  // namespace lockstep::nn
