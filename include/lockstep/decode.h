#pragma once

// Searching for the tokens that a model finds most likely: greedy, beam search, sampling.

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace lockstep {

/// A model in the middle of writing some texts, a row each.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  virtual std::int64_t rows() const = 0;
  /// Appends a token to each row, int64 [rows] (kBegin at first); returns the log probabilities of
  /// what follows, float [rows, vocabulary].
  virtual torch::Tensor next(const torch::Tensor& tokens) = 0;
  /// Goes on with these rows, int64 [n]: some may be there more than once, some not at all.
  virtual void select(const torch::Tensor& rows) = 0;
  /// What the last next() looked at, float [rows, source length]; undefined: it cannot tell.
  virtual torch::Tensor attention() const { return {}; }
};

struct Hypothesis {
  std::vector<std::int32_t> tokens = {};  ///< without kBegin and kEnd
  double score = 0;                       ///< what the search ranks by
  double log_probability = 0;             ///< of all tokens, and of kEnd if it ended
  bool ended = false;                     ///< with kEnd; else it was cut at max_length
  torch::Tensor attention = {};           ///< float [tokens and kEnd, source length], if asked for
};

struct BeamOptions {
  int width = 5;
  int best = 1;                  ///< hypotheses returned for each row, at most width
  std::int64_t max_length = 50;  ///< tokens, kEnd included
  double length_penalty = 0.6;   ///< alpha of ((5 + length) / 6)^alpha; 0: none
  double coverage_penalty = 0;   ///< beta of a bonus for attention spread over the whole source
  bool keep_attention = false;
};

struct SampleOptions {
  double temperature = 1;
  int top_k = 0;  ///< of the most likely tokens; 0: of all
  std::int64_t max_length = 50;
  std::uint64_t seed = 0;
};

/// For each row of the model the best hypotheses, best first.
std::vector<std::vector<Hypothesis>> beam_search(TokenModel& model, const BeamOptions& options);

/// For each row the most likely token, then the most likely after it, and so on. Equals a beam
/// search of width 1.
std::vector<Hypothesis> greedy_search(TokenModel& model, std::int64_t max_length,
                                      bool keep_attention = false);

/// For each row a text drawn at random; row r's draws belong to (seed, r).
std::vector<Hypothesis> sample(TokenModel& model, const SampleOptions& options);

}  // namespace lockstep
