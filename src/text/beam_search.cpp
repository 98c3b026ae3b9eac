#include <lockstep/error.h>
#include <lockstep/text/decode.h>
#include <lockstep/text/sequence_batch.h>

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "text/decode_tree.h"
#include "text/top_tokens.h"

namespace lockstep::text {
namespace {

/// A text that is not ended. `place` is its row of the model.
struct Open {
  double log_probability;
  std::int32_t node, token;
  std::int64_t place;
};

/// A text that goes no further.
struct Closed {
  double score, log_probability;
  std::int32_t node;
};

struct Row {
  std::vector<Open> open;     // most likely first
  std::vector<Closed> ended;  // the best so far, best first
  std::vector<Closed> cut;    // at the greatest length, best first
};

/// An open text, by its place among them, and a token.
struct Candidate {
  double log_probability;
  std::int32_t token;
  std::size_t beam;
};

bool better(const Candidate& a, const Candidate& b) {
  if (a.log_probability != b.log_probability) return a.log_probability > b.log_probability;
  return a.token != b.token ? a.token < b.token : a.beam < b.beam;
}

void insert(std::vector<Closed>& sorted, const Closed& closed, std::size_t most) {
  const auto after = [](const Closed& a, const Closed& b) { return a.score > b.score; };
  sorted.insert(std::upper_bound(sorted.begin(), sorted.end(), closed, after), closed);
  if (sorted.size() > most) sorted.pop_back();
}

/// How much attention each place of the source got so far, for each row of the model.
class Coverage {
 public:
  explicit Coverage(double beta) : beta_(beta) {}

  void add(const TokenModel& model) {
    if (beta_ == 0) return;
    const torch::Tensor attention = model.attention();
    require(attention.defined(),
            "coverage_penalty is " + std::to_string(beta_) +
                ", but the model does not tell its attention: give 0, or a model that does");
    const torch::Tensor part = attention.to(torch::kCPU, torch::kFloat64);
    // What gets nothing at all at the first step is padding: as if it had been covered.
    sums_ = sums_.defined() ? sums_ + part : part + (part == 0).to(torch::kFloat64);
  }

  void select(const torch::Tensor& rows) {
    if (sums_.defined()) sums_ = sums_.index_select(0, rows);
  }

  /// What is added to the score of a text that ends now, for each row of the model.
  std::vector<double> penalties(std::size_t rows) const {
    if (!sums_.defined()) return std::vector<double>(rows, 0);
    const torch::Tensor sums = sums_.clamp(FLT_MIN, 1).log_().sum(1).mul_(beta_);
    const double* first = sums.const_data_ptr<double>();
    return {first, first + sums.numel()};
  }

 private:
  double beta_;
  torch::Tensor sums_;  // double [rows of the model, source length] on the CPU
};

class BeamSearch {
 public:
  BeamSearch(TokenModel& model, const BeamOptions& options)
      : model_(model),
        options_(options),
        tree_(model, options.keep_attention),
        coverage_(options.coverage_penalty),
        rows_(static_cast<std::size_t>(model.rows())) {}

  std::vector<std::vector<Hypothesis>> run() {
    for (Row& row : rows_) row.open.push_back({0, DecodeTree::kStart, kBegin, open_++});
    for (length_ = 1; open_ > 0; ++length_) step();
    std::vector<std::vector<Hypothesis>> result;
    for (const Row& row : rows_) result.push_back(best_of(row));
    return result;
  }

 private:
  /// The divisor of a log probability.
  double penalty(std::int64_t length) const {
    return std::pow((5 + static_cast<double>(length)) / 6, options_.length_penalty);
  }

  void step() {
    std::vector<std::int64_t> tokens;
    for (const Row& row : rows_)
      for (const Open& open : row.open) tokens.push_back(open.token);
    const TopTokens top(tree_.next(tokens), options_.width);
    coverage_.add(model_);
    const std::vector<double> penalties = coverage_.penalties(tokens.size());
    std::vector<std::int64_t> places;
    for (Row& row : rows_) {
      extend(row, top, penalties);
      for (Open& open : row.open) {
        places.push_back(open.place);
        open.place = static_cast<std::int64_t>(places.size()) - 1;
      }
    }
    open_ = static_cast<std::int64_t>(places.size());
    if (open_ == 0) return;
    const torch::Tensor chosen = tree_.select(places);
    if (chosen.defined()) coverage_.select(chosen);
  }

  /// Puts the most likely extensions of the row's open texts into their place.
  void extend(Row& row, const TopTokens& top, const std::vector<double>& penalties) {
    std::vector<Candidate> candidates;
    for (std::size_t beam = 0; beam < row.open.size(); ++beam)
      for (const auto& [log_probability, token] : top.of(row.open[beam].place))
        candidates.push_back({row.open[beam].log_probability + log_probability, token, beam});
    const auto kept = std::min(candidates.size(), static_cast<std::size_t>(options_.width));
    const auto middle = candidates.begin() + static_cast<std::ptrdiff_t>(kept);
    std::partial_sort(candidates.begin(), middle, candidates.end(), better);
    candidates.erase(middle, candidates.end());
    const double divisor = penalty(length_);
    std::vector<Open> next;
    for (const auto& [log_probability, token, beam] : candidates) {
      const Open& parent = row.open[beam];
      const std::int32_t node = tree_.append(parent.node, token, parent.place);
      const double score = log_probability / divisor;
      if (token == kEnd)
        insert(row.ended,
               {score + penalties[static_cast<std::size_t>(parent.place)], log_probability, node},
               best());
      else if (length_ == options_.max_length)
        insert(row.cut, {score, log_probability, node}, best());
      else
        next.push_back({log_probability, node, token, parent.place});
    }
    row.open = std::move(next);
    drop_hopeless(row);
  }

  /// A text only gets less likely, the length penalty helps it most at the greatest length, and
  /// coverage never adds: what would not get among the best even so need not be gone on with. Those
  /// that it keeps from being open are less likely still.
  void drop_hopeless(Row& row) const {
    if (row.ended.size() < best()) return;
    const double bound = row.ended.back().score, divisor = penalty(options_.max_length);
    std::erase_if(row.open,
                  [&](const Open& open) { return open.log_probability / divisor <= bound; });
  }

  std::vector<Hypothesis> best_of(const Row& row) const {
    std::vector<Closed> closed = row.ended;
    closed.insert(closed.end(), row.cut.begin(), row.cut.end());
    closed.resize(std::min(closed.size(), best()));
    std::vector<Hypothesis> result;
    for (const auto& [score, log_probability, node] : closed)
      result.push_back(tree_.hypothesis(node, score, log_probability));
    return result;
  }

  std::size_t best() const { return static_cast<std::size_t>(options_.best); }

  TokenModel& model_;
  const BeamOptions options_;
  DecodeTree tree_;
  Coverage coverage_;
  std::vector<Row> rows_;
  std::int64_t open_ = 0;    // in all rows
  std::int64_t length_ = 0;  // of the texts that the step makes
};

void require_options(const BeamOptions& options) {
  const auto sensible = [](double value) { return value >= 0 && std::isfinite(value); };
  require(options.width >= 1, "width is " + std::to_string(options.width) +
                                  ": give the texts that a beam search keeps open, at least 1");
  require(options.best >= 1 && options.best <= options.width,
          "best is " + std::to_string(options.best) + " with a width of " +
              std::to_string(options.width) + ": give the texts to return, 1 to width");
  require_max_length(options.max_length);
  require(sensible(options.length_penalty),
          "length_penalty is " + std::to_string(options.length_penalty) +
              ": give 0 for none, or about 0.6 to 1 for longer texts");
  require(sensible(options.coverage_penalty),
          "coverage_penalty is " + std::to_string(options.coverage_penalty) +
              ": give 0 for none, or about 0.2 for texts that cover the source");
}

}  // namespace

std::vector<std::vector<Hypothesis>> beam_search(TokenModel& model, const BeamOptions& options) {
  require_options(options);
  const torch::NoGradGuard no_grad;
  return BeamSearch(model, options).run();
}

}  // namespace lockstep::text
