#pragma once

// What a model has decoded so far: a tree of tokens, and what it looked at for each.

#include <lockstep/text/decode.h>

#include <cstdint>
#include <vector>

namespace lockstep::text {

/// Drives the model, and remembers. A node is a token after that of its parent.
class DecodeTree {
 public:
  static constexpr std::int32_t kStart = -1;  ///< the parent of a text's first token

  DecodeTree(TokenModel& model, bool keep_attention);

  /// The log probabilities of what follows these tokens, one a row of the model.
  torch::Tensor next(const std::vector<std::int64_t>& tokens);
  /// Goes on with these rows of the model; returns them as a tensor, undefined if they are all.
  torch::Tensor select(const std::vector<std::int64_t>& rows);
  /// The new node. `row` is the one of the last next() that the token was chosen from.
  std::int32_t append(std::int32_t parent, std::int32_t token, std::int64_t row);

  /// The text that ends at `node`.
  Hypothesis hypothesis(std::int32_t node, double score, double log_probability) const;

 private:
  struct Node {
    std::int32_t parent, token;
    std::int64_t row;
  };

  TokenModel& model_;
  bool keep_attention_;
  std::vector<Node> nodes_;
  std::vector<torch::Tensor> attention_;  // of each step
};

/// Throws ConfigError with `message` if not `allowed`.
void require(bool allowed, const std::string& message);
void require_max_length(std::int64_t max_length);

}  // namespace lockstep::text
