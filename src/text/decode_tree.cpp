#include "text/decode_tree.h"

#include <lockstep/error.h>
#include <lockstep/text/sequence_batch.h>

#include <algorithm>

namespace lockstep::text {
namespace {

/// On the CPU, also where a tower's scope has another device as its default.
torch::Tensor on_host(const std::vector<std::int64_t>& numbers) {
  const auto options = torch::TensorOptions(torch::kInt64).device(torch::kCPU);
  torch::Tensor result = torch::empty({static_cast<std::int64_t>(numbers.size())}, options);
  std::copy(numbers.begin(), numbers.end(), result.mutable_data_ptr<std::int64_t>());
  return result;
}

bool are_all(const std::vector<std::int64_t>& rows, std::int64_t count) {
  if (static_cast<std::int64_t>(rows.size()) != count) return false;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i] != static_cast<std::int64_t>(i)) return false;
  return true;
}

}  // namespace

DecodeTree::DecodeTree(TokenModel& model, bool keep_attention)
    : model_(model), keep_attention_(keep_attention) {}

torch::Tensor DecodeTree::next(const std::vector<std::int64_t>& tokens) {
  torch::Tensor result = model_.next(on_host(tokens));
  check(result.dim() == 2 && result.size(0) == static_cast<std::int64_t>(tokens.size()),
        "the log probabilities of a TokenModel must be [rows, vocabulary]");
  if (keep_attention_) {
    const torch::Tensor attention = model_.attention();
    if (attention.defined())
      attention_.push_back(attention.to(torch::kCPU, torch::kFloat32).clone());
    else
      keep_attention_ = false;
  }
  return result;
}

torch::Tensor DecodeTree::select(const std::vector<std::int64_t>& rows) {
  if (are_all(rows, model_.rows())) return {};
  torch::Tensor chosen = on_host(rows);
  model_.select(chosen);
  return chosen;
}

std::int32_t DecodeTree::append(std::int32_t parent, std::int32_t token, std::int64_t row) {
  nodes_.push_back({parent, token, row});
  return static_cast<std::int32_t>(nodes_.size()) - 1;
}

Hypothesis DecodeTree::hypothesis(std::int32_t node, double score, double log_probability) const {
  Hypothesis result = {.score = score, .log_probability = log_probability};
  std::vector<std::int64_t> rows;  // of each step
  for (std::int32_t at = node; at != kStart; at = nodes_[static_cast<std::size_t>(at)].parent) {
    result.tokens.push_back(nodes_[static_cast<std::size_t>(at)].token);
    rows.push_back(nodes_[static_cast<std::size_t>(at)].row);
  }
  std::reverse(result.tokens.begin(), result.tokens.end());
  std::reverse(rows.begin(), rows.end());
  result.ended = result.tokens.back() == kEnd;
  if (result.ended) result.tokens.pop_back();
  if (keep_attention_) {
    std::vector<torch::Tensor> steps;
    for (std::size_t i = 0; i < rows.size(); ++i) steps.push_back(attention_[i][rows[i]]);
    result.attention = torch::stack(steps);
  }
  return result;
}

void require(bool allowed, const std::string& message) {
  if (!allowed) throw ConfigError(message);
}

void require_max_length(std::int64_t max_length) {
  require(max_length >= 1, "max_length is " + std::to_string(max_length) +
                               ": give the tokens of the longest text, kEnd included, at least 1");
}

}  // namespace lockstep::text
