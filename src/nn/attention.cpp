#include <lockstep/nn/seq2seq.h>

#include <limits>

namespace lockstep::nn {

using torch::Tensor;

/// What queries are compared with: computed once a source.
Tensor Seq2Seq::keys_of(const Tensor& outputs) const {
  return options.attention == Attention::dot ? outputs : torch::linear(outputs, attention_key);
}

/// How much each query, [rows, queries, hidden], looks at each token of the source: [rows, queries,
/// source length], 0 for padding.
Tensor Seq2Seq::look(const Encoded& encoded, const Tensor& queries) const {
  Tensor scores;
  if (options.attention == Attention::bahdanau) {
    const Tensor mixed =
        torch::linear(queries, attention_query).unsqueeze(2) + encoded.keys.unsqueeze(1);
    scores = torch::matmul(mixed.tanh(), attention_score);
  } else {
    scores = torch::bmm(queries, encoded.keys.transpose(1, 2));
  }
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  return scores.masked_fill(encoded.padding.unsqueeze(1), kNever).softmax(-1);
}

}  // namespace lockstep::nn
