#include "sim/history.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace history_test {

using lockstep::sim::Access;
using lockstep::sim::History;
using lockstep::sim::VectorClock;

const std::string kName = "op";

/// The plain way: each byte has its own last write and reads.
struct ByByte {
  struct Byte {
    std::optional<Access> write;
    std::vector<Access> reads;
  };
  std::vector<Byte> bytes = std::vector<Byte>(40);

  bool conflict(std::size_t begin, std::size_t end, bool write, const VectorClock& known) const {
    const auto open = [&](const Access& a) { return known[a.stream] < a.count; };
    for (std::size_t i = begin; i < end; ++i) {
      if (bytes[i].write && open(*bytes[i].write)) return true;
      if (write && std::any_of(bytes[i].reads.begin(), bytes[i].reads.end(), open)) return true;
    }
    return false;
  }

  void enter(std::size_t begin, std::size_t end, bool write, const Access& access) {
    for (std::size_t i = begin; i < end; ++i) {
      if (write)
        bytes[i] = {access, {}};
      else
        bytes[i].reads.push_back(access);
    }
  }
};

TEST(SimHistory, FindsTheSameConflictsAsAModelByByte) {
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return std::size_t{random()} % n; };
  std::map<bool, int> seen;
  for (int round = 0; round < 200; ++round) {
    History history;
    ByByte model;
    std::vector<VectorClock> streams(3);
    for (int i = 0; i < 60; ++i) {
      const std::size_t stream = below(3), begin = below(40), end = begin + 1 + below(40 - begin);
      const bool write = below(2) == 0;
      if (below(3) == 0) streams[stream].join(streams[below(3)]);
      VectorClock& known = streams[stream];
      const Access access{stream, known.advance(stream), 1, &kName};
      const bool expected = model.conflict(begin, end, write, known);
      ASSERT_EQ(history.conflict(begin, end, write, known).has_value(), expected);
      ++seen[expected];
      if (expected) continue;
      history.enter(begin, end, write, access, known);
      model.enter(begin, end, write, access);
    }
  }
  EXPECT_GT(seen[true], 1000);
  EXPECT_GT(seen[false], 1000);
}

TEST(SimHistory, ForgetsOneStreamOnly) {
  History history;
  VectorClock one, two;
  history.enter(0, 8, true, {1, one.advance(1), 1, &kName}, one);
  history.enter(8, 16, true, {2, two.advance(2), 1, &kName}, two);
  history.forget(1);
  EXPECT_FALSE(history.conflict(0, 8, true, VectorClock{}));
  EXPECT_TRUE(history.conflict(8, 16, true, VectorClock{}));
}

}  // namespace history_test
