#pragma once

// A TokenModel without weights: what it says depends on all that was written, by a hash.

#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <lockstep/random.h>
#include <lockstep/text/decode.h>
#include <lockstep/text/sequence_batch.h>

#include <array>
#include <vector>

namespace lockstep::text {

struct PrefixModelOptions {
  std::int64_t vocabulary = 9;
  std::uint64_t seed = 1;
  std::vector<std::int64_t> rows = {0};    ///< the name of each row's source
  std::vector<std::int64_t> lengths = {};  ///< of each row's source; empty: no attention
  std::int64_t source_length = 6;          ///< with padding
  double end = 0;                          ///< added to the logit of kEnd
};

class PrefixModel : public TokenModel {
 public:
  explicit PrefixModel(const PrefixModelOptions& options) : options_(options) {
    for (std::size_t i = 0; i < options.rows.size(); ++i)
      state_.push_back({combined_seed(options.seed, std::array{options.rows[i]}),
                        options.lengths.empty() ? 0 : options.lengths[i]});
  }

  std::int64_t rows() const override { return static_cast<std::int64_t>(state_.size()); }

  torch::Tensor next(const torch::Tensor& tokens) override {
    EXPECT_EQ(tokens.sizes(), torch::IntArrayRef({rows()}));
    EXPECT_FALSE(torch::GradMode::is_enabled());
    rows_seen += rows();
    std::vector<torch::Tensor> result;
    for (std::size_t i = 0; i < state_.size(); ++i) {
      advance(state_[i], tokens[static_cast<std::int64_t>(i)].item<std::int64_t>());
      result.push_back(log_probabilities(state_[i]));
    }
    return torch::stack(result);
  }

  void select(const torch::Tensor& chosen) override {
    std::vector<State> selected;
    for (std::int64_t i = 0; i < chosen.size(0); ++i)
      selected.push_back(state_.at(static_cast<std::size_t>(chosen[i].item<std::int64_t>())));
    state_ = selected;
  }

  torch::Tensor attention() const override {
    if (options_.lengths.empty()) return {};
    std::vector<torch::Tensor> result;
    for (const State& state : state_) result.push_back(attention(state));
    return torch::stack(result);
  }

  struct State {
    std::uint64_t hash;
    std::int64_t length;  // of the source
  };

  /// For a search that goes its own way.
  State start(std::size_t row) const { return state_[row]; }

  static void advance(State& state, std::int64_t token) {
    state.hash = combined_seed(state.hash, std::array{token});
  }

  torch::Tensor log_probabilities(const State& state) const {
    torch::Tensor logits = torch::empty({options_.vocabulary}, torch::kFloat64);
    KeyedRandom random(state.hash, 0, 0);
    for (std::int64_t i = 0; i < options_.vocabulary; ++i) logits[i] = 6 * random.uniform();
    logits[kEnd] += options_.end;
    for (const std::int64_t never : {kPad, kUnknown, kBegin}) logits[never] = 7;
    return logits.log_softmax(0).to(torch::kFloat32);
  }

  torch::Tensor attention(const State& state) const {
    torch::Tensor weights = torch::zeros({options_.source_length}, torch::kFloat64);
    KeyedRandom random(state.hash, 0, 1);
    for (std::int64_t i = 0; i < state.length; ++i) weights[i] = 0.01 + random.uniform();
    return (weights / weights.sum()).to(torch::kFloat32);
  }

  std::int64_t rows_seen = 0;  ///< by all calls of next()

 private:
  PrefixModelOptions options_;
  std::vector<State> state_;
};

/// Says the same at every step: for ties, impossible tokens and distributions.
class ConstantModel : public TokenModel {
 public:
  ConstantModel(std::vector<float> log_probabilities, std::int64_t rows)
      : log_probabilities_(torch::tensor(log_probabilities)), rows_(rows) {}

  std::int64_t rows() const override { return rows_; }
  torch::Tensor next(const torch::Tensor&) override {
    return log_probabilities_.expand({rows_, log_probabilities_.size(0)});
  }
  void select(const torch::Tensor& chosen) override { rows_ = chosen.size(0); }

 private:
  torch::Tensor log_probabilities_;
  std::int64_t rows_;
};

inline void expect_equal(const Hypothesis& a, const Hypothesis& b) {
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.log_probability, b.log_probability);
  EXPECT_EQ(a.ended, b.ended);
  ASSERT_EQ(a.attention.defined(), b.attention.defined());
  EXPECT_TRUE(!a.attention.defined() || torch::equal(a.attention, b.attention));
}

/// `run` must throw a ConfigError whose message begins with `option`.
template <class Run>
void expect_config_error(const std::string& option, Run run) {
  try {
    run();
    FAIL() << option << " was taken";
  } catch (const ConfigError& error) {
    EXPECT_EQ(std::string(error.what()).find(option), 0U) << error.what();
    EXPECT_NE(std::string(error.what()).find(": give "), std::string::npos) << error.what();
  }
}

}  // namespace lockstep::text
