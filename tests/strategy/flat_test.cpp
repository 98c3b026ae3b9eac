// State in its three forms: whole arenas, slices, named tensors.

#include "strategy/flat.h"

#include <gtest/gtest.h>
#include <lockstep/error.h>

namespace flat_test {

using namespace lockstep;
using namespace lockstep::strategy;

/// Tensors of two dtypes and odd sizes; some are longer than a block.
std::vector<arena::Entry> entries() {
  torch::manual_seed(3);
  return {{"conv", torch::randn({3, 5, 7})},
          {"wide", torch::randn({2, 6000})},
          {"half", torch::randn({9000}).to(torch::kHalf)},
          {"turned", torch::randn({40, 50}).t()},
          {"scalar", torch::randn({})}};
}

std::vector<NamedTensor> values_of(const std::vector<arena::Entry>& from) {
  std::vector<NamedTensor> values;
  for (const arena::Entry& entry : from) values.push_back({entry.name + "/slot", entry.tensor});
  return values;
}

Naming with(const std::string& suffix) {
  return [suffix](const arena::Seat& seat) { return seat.name + suffix; };
}

class FlatTest : public ::testing::Test {
 protected:
  const std::vector<arena::Entry> entries_ = entries();
  const std::vector<arena::Layout> layouts_ = arena::layouts(entries_);
  const std::vector<NamedTensor> values_ = values_of(entries_);
  const Flats whole_ = ByName(values_).flats(layouts_, with("/slot"));
};

TEST_F(FlatTest, NamedTensorsComeBackFromWholeArenas) {
  const std::vector<NamedTensor> found = named(whole_, layouts_, with("/slot"));
  ASSERT_EQ(found.size(), values_.size());
  for (const NamedTensor& value : values_) {
    const auto same = [&](const NamedTensor& each) { return each.name == value.name; };
    const auto at = std::ranges::find_if(found, same);
    ASSERT_NE(at, found.end()) << value.name;
    EXPECT_TRUE(torch::equal(at->value, value.value)) << value.name;
    EXPECT_EQ(at->value.strides(), value.value.strides()) << value.name;
  }
}

TEST_F(FlatTest, WhatIsNamedIsACopy) {
  const std::vector<NamedTensor> found = named(whole_, layouts_);
  const torch::Tensor before = found[0].value.clone();
  for (const torch::Tensor& flat : whole_) flat.zero_();
  EXPECT_TRUE(torch::equal(found[0].value, before));
}

TEST_F(FlatTest, SlicesOfAnyNumberOfTowersJoinToTheWhole) {
  for (const std::int64_t bytes : {0, 16384, 20000})
    for (const int towers : {1, 2, 3, 5, 9}) {
      const std::vector<arena::Bucket> buckets = arena::buckets(layouts_, bytes);
      const Flats joined = allocate(layouts_, torch::kCPU);
      for (int rank = 0; rank < towers; ++rank) {
        Flats own;  // cut out, as a tower has it
        for (const torch::Tensor& slice : slices_of(whole_, buckets, rank, towers))
          own.push_back(slice.clone());
        copy_all(slices_of(joined, buckets, rank, towers), own);
      }
      for (std::size_t i = 0; i < whole_.size(); ++i)
        EXPECT_TRUE(torch::equal(joined[i], whole_[i])) << towers << " towers";
    }
}

TEST_F(FlatTest, SlicesAreViews) {
  const std::vector<arena::Bucket> buckets = arena::buckets(layouts_, 0);
  for (const torch::Tensor& slice : slices_of(whole_, buckets, 0, 1)) slice.fill_(7);
  for (const torch::Tensor& flat : whole_) EXPECT_TRUE(flat.eq(7).all().item<bool>());
}

TEST_F(FlatTest, AMissingTensorIsNamed) {
  try {
    ByName(values_).flats(layouts_, with("/other"));
    ADD_FAILURE() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("'conv/other'"), std::string::npos) << error.what();
  }
}

TEST_F(FlatTest, ATensorOfAnotherSizeOrTypeIsRefused) {
  const ByName by_name(values_);
  EXPECT_NO_THROW(by_name.at("scalar/slot", {}, torch::kFloat32));
  EXPECT_THROW(by_name.at("scalar/slot", {1}, torch::kFloat32), ConfigError);
  EXPECT_THROW(by_name.at("scalar/slot", {}, torch::kFloat64), ConfigError);
}

TEST_F(FlatTest, AParameterIsInTheBucketsThatItsSeatReachesInto) {
  const ParameterMap map(layouts_, 16384);  // a block of float32 each
  ASSERT_EQ(map.seats.size(), entries_.size());
  for (std::size_t i = 0; i < map.seats.size(); ++i) {
    EXPECT_EQ(map.seats[i]->name, entries_[i].name);
    std::int64_t covered = 0;
    for (const std::size_t bucket : map.buckets_of[i]) {
      const arena::Slice range = map.buckets[bucket].range;
      const arena::Seat& seat = *map.seats[i];
      covered += std::min(range.end, seat.offset + seat.numel) - std::max(range.begin, seat.offset);
    }
    EXPECT_EQ(covered, entries_[i].tensor.numel()) << entries_[i].name;
  }
  EXPECT_GT(map.buckets_of[1].size(), 1U);
}

}  // namespace flat_test
