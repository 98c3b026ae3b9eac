#pragma once

// A beam search that looks at a row at a time, at every text one token longer, and never stops
// early.

#include <algorithm>
#include <cmath>

#include "text/prefix_model.h"

namespace lockstep::text {

/// A text as a search that takes its time sees it.
struct Plain {
  PrefixModel::State state;
  std::int32_t last = kBegin;
  Hypothesis text = {};
  torch::Tensor coverage = {};  // sums of attention

  bool open() const { return last != kEnd; }
};

inline double plain_score(const Plain& at, const BeamOptions& options) {
  const auto length = static_cast<double>(at.text.tokens.size()) + (at.text.ended ? 1 : 0);
  double score = at.text.log_probability / std::pow((5 + length) / 6, options.length_penalty);
  if (options.coverage_penalty == 0 || !at.text.ended) return score;
  for (std::int64_t i = 0; i < at.state.length; ++i)
    score += options.coverage_penalty * std::log(std::min(at.coverage[i].item<double>(), 1.0));
  return score;
}

/// All texts that are one token longer than `parent`.
inline std::vector<Plain> extensions(const PrefixModel& model, const Plain& parent,
                                     const BeamOptions& options) {
  Plain next = parent;
  PrefixModel::advance(next.state, parent.last);
  const torch::Tensor attention = model.attention(next.state).to(torch::kFloat64);
  next.coverage = parent.coverage.defined() ? parent.coverage + attention : attention;
  const torch::Tensor choices = model.log_probabilities(next.state);
  std::vector<Plain> result;
  for (std::int32_t token = kEnd; token < choices.size(0); ++token) {
    Plain child = next;
    child.last = token;
    child.text.ended = token == kEnd;
    if (token != kEnd) child.text.tokens.push_back(token);
    child.text.log_probability += choices[token].item<float>();
    child.text.score = plain_score(child, options);
    result.push_back(child);
  }
  return result;
}

/// Every step keeps the `width` most likely of all extensions, to the greatest length, no matter
/// what: all of them for a great width.
inline std::vector<Hypothesis> plain_search(const PrefixModel& model, std::size_t row,
                                            const BeamOptions& options) {
  std::vector<Plain> open = {{.state = model.start(row)}};
  std::vector<Hypothesis> closed;
  for (std::int64_t length = 1; length <= options.max_length; ++length) {
    std::vector<Plain> candidates;
    for (const Plain& parent : open)
      for (Plain& child : extensions(model, parent, options))
        candidates.push_back(std::move(child));
    std::stable_sort(candidates.begin(), candidates.end(), [](const Plain& a, const Plain& b) {
      return a.text.log_probability > b.text.log_probability;
    });
    candidates.resize(std::min(candidates.size(), static_cast<std::size_t>(options.width)));
    open.clear();
    for (Plain& candidate : candidates) {
      if (!candidate.open() || length == options.max_length)
        closed.push_back(candidate.text);
      else
        open.push_back(std::move(candidate));
    }
  }
  std::stable_sort(closed.begin(), closed.end(), [](const Hypothesis& a, const Hypothesis& b) {
    return a.ended != b.ended ? a.ended : a.score > b.score;
  });
  closed.resize(std::min(closed.size(), static_cast<std::size_t>(options.best)));
  return closed;
}

}  // namespace lockstep::text
