#pragma once

// Searching for the tokens that a model finds most likely: greedy, beam search, sampling.

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace lockstep::text {

/// A model in the middle of decoding some texts, a row each. A search calls next(), then
/// attention() and select(), then next() again, and so on; afterwards the model is used up.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  virtual std::int64_t rows() const = 0;
  /// Appends a token to each row, int64 [rows] on the CPU (kBegin at first); returns the log
  /// probabilities of what follows, float [rows, vocabulary].
  virtual torch::Tensor next(const torch::Tensor& tokens) = 0;
  /// Continues with these rows, int64 [n] on the CPU: a row may appear several times, or not at
  /// all.
  virtual void select(const torch::Tensor& rows) = 0;
  /// What the last next() looked at, float [rows, source length], 0 at padding; undefined: it
  /// cannot tell.
  virtual torch::Tensor attention() const { return {}; }
};

struct Hypothesis {
  std::vector<std::int32_t> tokens = {};  ///< without kBegin and kEnd
  double score = 0;                       ///< what the search ranks by
  double log_probability = 0;             ///< of all tokens, and of kEnd if it ended
  bool ended = false;                     ///< with kEnd; else it was cut at max_length
  torch::Tensor attention = {};           ///< float [tokens and kEnd, source length] on the CPU, if
                                          ///< asked for and the model can tell
};

struct BeamOptions {
  int width = 5;
  int best = 1;                  ///< hypotheses returned for each row, at most width
  std::int64_t max_length = 50;  ///< tokens, kEnd included
  double length_penalty = 0.6;   ///< alpha of ((5 + length) / 6)^alpha, kEnd included; 0: none
  double coverage_penalty = 0;   ///< beta of a penalty for parts of the source not looked at
  bool keep_attention = false;
};

struct SampleOptions {
  double temperature = 1;        ///< below 1: likely tokens more often; 0: always the most likely
  int top_k = 0;                 ///< of the most likely tokens; 0: of all
  std::int64_t max_length = 50;  ///< tokens, kEnd included
  std::uint64_t seed = 0;
};

// No search chooses kPad, kBegin or kUnknown, however likely. All throw ConfigError for options
// that cannot be, and NonFiniteError when the model gives no token a probability.

/// Beam search: for each row the `best` hypotheses, best first. Every step extends the open ones by
/// any token and keeps the `width` most likely; those that end with kEnd are scored as in GNMT,
///   log_probability / ((5 + length) / 6)^alpha + beta * sum over the source of
///   log(min(attention it got, 1)).
/// A row is done when nothing open can still get among its best. What is open at max_length counts
/// only where fewer ended than were asked for, after those that did, without coverage. Among equals
/// the lower token is first, then the better beginning. Rows do not influence each other.
std::vector<std::vector<Hypothesis>> beam_search(TokenModel& model, const BeamOptions& options);

/// For each row the most likely token, then the most likely after it, and so on; the lower token
/// among equals. Equals a beam search of width 1; the score is the log probability.
std::vector<Hypothesis> greedy_search(TokenModel& model, std::int64_t max_length,
                                      bool keep_attention = false);

/// For each row a text drawn at random; the draw at a position belongs to (seed, row, position).
/// Score and log probability are the model's, whatever the temperature.
std::vector<Hypothesis> sample(TokenModel& model, const SampleOptions& options);

}  // namespace lockstep::text
