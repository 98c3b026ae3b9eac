// Greedy search and sampling: one text a row, no way back.

#include <ATen/Parallel.h>
#include <lockstep/random.h>
#include <lockstep/text/decode.h>
#include <lockstep/text/sequence_batch.h>

#include <cfloat>
#include <cmath>
#include <functional>

#include "text/decode_tree.h"
#include "text/top_tokens.h"

namespace lockstep::text {
namespace {

/// A text that is being decoded; `row` is the model's at the start.
struct Text {
  std::int64_t row;
  double log_probability = 0;
  std::int32_t node = DecodeTree::kStart;
};

/// One token for each text, from log probabilities [texts, vocabulary], at a position from 0 on.
using Choose = std::function<std::vector<ScoredToken>(
    const torch::Tensor& log_probabilities, const std::vector<Text>& texts, std::int64_t position)>;

std::vector<Hypothesis> decode_rows(TokenModel& model, std::int64_t max_length, bool keep_attention,
                                    const Choose& choose) {
  const torch::NoGradGuard no_grad;
  const auto rows = static_cast<std::size_t>(model.rows());
  std::vector<Hypothesis> result(rows);
  std::vector<Text> texts;
  for (std::size_t row = 0; row < rows; ++row)
    texts.push_back({.row = static_cast<std::int64_t>(row)});
  std::vector<std::int64_t> tokens(rows, kBegin);
  DecodeTree tree(model, keep_attention);
  for (std::int64_t position = 0; !texts.empty(); ++position) {
    const std::vector<ScoredToken> chosen = choose(tree.next(tokens), texts, position);
    std::vector<Text> open;
    std::vector<std::int64_t> open_rows;
    tokens.clear();
    for (std::size_t i = 0; i < texts.size(); ++i) {
      Text text = texts[i];
      const auto [log_probability, token] = chosen[i];
      text.log_probability += log_probability;
      text.node = tree.append(text.node, token, static_cast<std::int64_t>(i));
      if (token == kEnd || position + 1 == max_length) {
        result[static_cast<std::size_t>(text.row)] =
            tree.hypothesis(text.node, text.log_probability, text.log_probability);
      } else {
        open.push_back(text);
        open_rows.push_back(static_cast<std::int64_t>(i));
        tokens.push_back(token);
      }
    }
    if (!open.empty()) tree.select(open_rows);
    texts = std::move(open);
  }
  return result;
}

std::vector<ScoredToken> most_likely(const torch::Tensor& log_probabilities) {
  const TopTokens top(log_probabilities, 1);
  std::vector<ScoredToken> result;
  for (std::int64_t i = 0; i < log_probabilities.size(0); ++i) result.push_back(top.of(i)[0]);
  return result;
}

/// Item i with probability weights[i] / sum, by a number from 0 up to 1; -1: no weight is above 0.
std::ptrdiff_t drawn(std::span<const float> weights, double uniform) {
  double sum = 0;
  for (const float weight : weights) sum += weight;
  if (!(sum > 0)) return -1;
  double left = uniform * sum;
  std::ptrdiff_t last = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    last = static_cast<std::ptrdiff_t>(i);
    left -= weights[i];
    if (left < 0) break;
  }
  return last;
}

std::vector<ScoredToken> drawn_of_top(const torch::Tensor& log_probabilities,
                                      const SampleOptions& options,
                                      const std::vector<double>& uniforms) {
  const TopTokens top(log_probabilities, options.top_k);
  std::vector<ScoredToken> result;
  std::vector<float> weights;
  for (std::size_t i = 0; i < uniforms.size(); ++i) {
    const std::span<const ScoredToken> tokens = top.of(static_cast<std::int64_t>(i));
    weights.clear();
    for (const ScoredToken& token : tokens)
      weights.push_back(static_cast<float>(std::exp(
          (double{token.log_probability} - tokens[0].log_probability) / options.temperature)));
    result.push_back(tokens[static_cast<std::size_t>(drawn(weights, uniforms[i]))]);
  }
  return result;
}

std::vector<ScoredToken> drawn_of_all(const torch::Tensor& log_probabilities,
                                      const SampleOptions& options,
                                      const std::vector<double>& uniforms) {
  const torch::Tensor scores = decodable(log_probabilities).cpu().contiguous();
  const double temperature = std::max(options.temperature, double{FLT_MIN});
  const torch::Tensor weights =
      scores.sub(scores.amax(1, true)).div_(temperature).exp_().contiguous();
  const auto columns = static_cast<std::size_t>(scores.size(1));
  const float* score = scores.const_data_ptr<float>();
  const float* weight = weights.const_data_ptr<float>();
  std::vector<ScoredToken> result(uniforms.size());
  at::parallel_for(0, scores.size(0), 4, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      const std::ptrdiff_t place = drawn({weight + i * columns, columns}, uniforms[i]);
      if (place < 0) throw_nothing_possible(static_cast<std::int64_t>(i));
      result[i] = {score[i * columns + static_cast<std::size_t>(place)],
                   kEnd + static_cast<std::int32_t>(place)};
    }
  });
  return result;
}

}  // namespace

std::vector<Hypothesis> greedy_search(TokenModel& model, std::int64_t max_length,
                                      bool keep_attention) {
  require_max_length(max_length);
  return decode_rows(model, max_length, keep_attention,
                     [](const torch::Tensor& log_probabilities, const auto&, std::int64_t) {
                       return most_likely(log_probabilities);
                     });
}

std::vector<Hypothesis> sample(TokenModel& model, const SampleOptions& options) {
  require_max_length(options.max_length);
  require(options.temperature >= 0 && std::isfinite(options.temperature),
          "temperature is " + std::to_string(options.temperature) +
              ": give 1 for the model's own probabilities, less for likelier texts, 0 or more");
  require(options.top_k >= 0, "top_k is " + std::to_string(options.top_k) +
                                  ": give the number of tokens to draw from, or 0 for all");
  const auto choose = [&](const torch::Tensor& log_probabilities, const std::vector<Text>& texts,
                          std::int64_t position) {
    if (options.temperature == 0) return most_likely(log_probabilities);
    std::vector<double> uniforms;
    for (const Text& text : texts)
      uniforms.push_back(KeyedRandom(options.seed, text.row, position).uniform());
    return options.top_k > 0 ? drawn_of_top(log_probabilities, options, uniforms)
                             : drawn_of_all(log_probabilities, options, uniforms);
  };
  return decode_rows(model, options.max_length, false, choose);
}

}  // namespace lockstep::text
