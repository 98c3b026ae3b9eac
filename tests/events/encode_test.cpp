// What is inside a record. tests/oracles/tensorboard_reads.py asks TensorBoard itself.

#include "events/encode.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "decoded.h"
#include "events/histogram.h"
#include "events/records.h"

namespace encode_test {

using namespace lockstep;
using namespace lockstep::events;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

double total(const std::vector<Bucket>& buckets) {
  double sum = 0;
  for (const Bucket& bucket : buckets) sum += bucket.count;
  return sum;
}

TEST(Encode, AScalarIsTheBytesThatTensorBoardsOwnProtosMake) {
  // Event(wall_time=1500000000.25, step=7, summary=[(tag="loss", simple_value=0.5)]) written by
  // tensorboard 2.21.
  const unsigned char golden[] = {0x1a, 0,    0,    0,    0,    0,    0,    0,    0x12, 0x9b, 0xd8,
                                  0x2d, 0x09, 0x00, 0x00, 0x10, 0xc0, 0x0b, 0x5a, 0xd6, 0x41, 0x10,
                                  0x07, 0x2a, 0x0d, 0x0a, 0x0b, 0x0a, 0x04, 0x6c, 0x6f, 0x73, 0x73,
                                  0x15, 0x00, 0x00, 0x00, 0x3f, 0x60, 0xcd, 0xc5, 0x2d};
  const Stamp at{.wall_time = 1500000000.25, .step = 7};
  EXPECT_EQ(record(encode_scalar(at, "loss", 0.5)),
            std::string(std::begin(golden), std::end(golden)));
}

TEST(Encode, AHistogramIsATensorOfItsBuckets) {
  const std::vector<float> values = {-1, 0, 0, 2};
  const DecodedEvent event = decode(encode_histogram({.wall_time = 1, .step = -3}, "w", values));
  EXPECT_EQ(event.step, -3);
  ASSERT_EQ(event.values.size(), 1U);
  EXPECT_EQ(event.values[0].tag, "w");
  EXPECT_EQ(event.values[0].plugin, "histograms");
  const std::vector<Bucket> expected = histogram(values);
  const std::string& content = event.values[0].tensor_content;
  ASSERT_EQ(content.size(), expected.size() * sizeof(Bucket));
  EXPECT_EQ(std::memcmp(content.data(), expected.data(), content.size()), 0);
}

TEST(Encode, TextThatIsNotUtf8StaysReadable) {
  const DecodedEvent event = decode(encode_text({}, "t\xff", "good \xc3\xa9, bad \xc3"));
  EXPECT_EQ(event.values.at(0).tag, "t\xef\xbf\xbd");
  EXPECT_EQ(event.values.at(0).strings.at(0), "good \xc3\xa9, bad \xef\xbf\xbd");
}

TEST(Decoded, AFieldOfAnotherWireTypeIsSkipped) {  // found by the fuzz target event_records
  const DecodedEvent event = decode(std::string_view("\x18\x05\x10\x07", 4));
  EXPECT_EQ(event.file_version, "");
  EXPECT_EQ(event.step, 7);
}

TEST(Histogram, CountsEveryFiniteValueOnce) {
  const std::vector<Bucket> buckets = histogram(std::vector<float>{0, 1, 29, 30, 15, 15.5F});
  ASSERT_EQ(buckets.size(), 30U);
  EXPECT_EQ(buckets[0].count, 1);
  EXPECT_EQ(buckets[1].count, 1);
  EXPECT_EQ(buckets[15].count, 2);
  EXPECT_EQ(buckets[29].count, 2);  // the greatest is in the last bucket
  EXPECT_EQ(total(buckets), 6);
  EXPECT_EQ(buckets[0].left, 0);
  EXPECT_EQ(buckets[29].right, 30);
  for (std::size_t i = 1; i < buckets.size(); ++i) EXPECT_EQ(buckets[i].left, buckets[i - 1].right);
}

TEST(Histogram, LeavesOutInfinitiesAndNan) {
  const auto buckets = histogram(std::vector<float>{kNan, 1, kInfinity, 3, -kInfinity, kNan});
  EXPECT_EQ(total(buckets), 2);
  EXPECT_EQ(buckets.front().left, 1);
  EXPECT_EQ(buckets.back().right, 3);
}

TEST(Histogram, OfNothingFiniteIsZero) {
  for (const auto& values : {std::vector<float>{}, {kNan}, {kInfinity, -kInfinity}}) {
    const std::vector<Bucket> buckets = histogram(values);
    EXPECT_EQ(buckets.size(), 30U);
    EXPECT_EQ(total(buckets), 0);
    EXPECT_EQ(buckets.back().right, 0);
  }
}

TEST(Histogram, OfEqualValuesHasThemAllInTheLastBucket) {
  const std::vector<Bucket> buckets = histogram(std::vector<float>(5, 0.25F));
  EXPECT_EQ(buckets.back().count, 5);
  EXPECT_EQ(total(buckets), 5);
  EXPECT_EQ(buckets.front().left, 0.25);
  EXPECT_EQ(buckets.back().right, 0.25);
}

TEST(Histogram, OfTheWidestAndTheNarrowestRangeIsFinite) {
  constexpr float kMost = std::numeric_limits<float>::max();
  constexpr float kLeast = std::numeric_limits<float>::denorm_min();
  const std::vector<Bucket> wide = histogram(std::vector<float>{-kMost, kMost});
  EXPECT_EQ(wide.front().count, 1);
  EXPECT_EQ(wide.back().count, 1);
  EXPECT_EQ(wide.back().right, kMost);
  EXPECT_EQ(total(histogram(std::vector<float>{0, kLeast, kLeast})), 3);
}

}  // namespace encode_test
