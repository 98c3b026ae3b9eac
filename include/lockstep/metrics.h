#pragma once

// Metrics are sums that can be merged: each row counts once, whichever device computed it.

#include <map>
#include <string>
#include <tuple>

namespace lockstep {

/// A weighted mean that can be merged: {sum of values, sum of weights}.
struct Mean {
  double sum = 0;
  double weight = 0;

  double value() const { return sum / weight; }  ///< NaN when nothing was counted
  Mean& operator+=(const Mean& other) {
    sum += other.sum;
    weight += other.weight;
    return *this;
  }
  bool operator==(const Mean&) const = default;
  auto fields() { return std::tie(sum, weight); }  ///< see lockstep/travel.h
};

/// Means by name: {{"accuracy", {correct, rows}}, {"loss", {loss * rows, rows}}}.
struct Metrics : std::map<std::string, Mean> {
  using std::map<std::string, Mean>::map;

  Metrics& operator+=(const Metrics& other) {
    for (const auto& [name, mean] : other) (*this)[name] += mean;
    return *this;
  }
};

}  // namespace lockstep
