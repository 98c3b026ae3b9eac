// The framing of event files and its checksum.

#include "events/records.h"

#include <gtest/gtest.h>
#include <lockstep/error.h>

#include <numeric>

#include "events/crc32c.h"

namespace records_test {

using namespace lockstep;
using namespace lockstep::events;

/// One bit at a time, as the definition says.
std::uint32_t crc32c_by_bits(std::string_view data) {
  std::uint32_t crc = 0xffffffffU;
  for (const char letter : data) {
    crc ^= static_cast<unsigned char>(letter);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0x82f63b78U : 0U);
  }
  return ~crc;
}

/// What reading `bytes` complains of: the offset, or -1 if they are sound.
std::int64_t trouble(std::string_view bytes) {
  try {
    read_records("some-file", bytes);
    return -1;
  } catch (const CorruptFile& error) {
    EXPECT_EQ(error.path, "some-file");
    return static_cast<std::int64_t>(error.offset);
  }
}

TEST(Crc32c, EqualsThePublishedValues) {
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  // RFC 3720, B.4.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  std::string rising(32, '\0');
  std::iota(rising.begin(), rising.end(), '\0');
  EXPECT_EQ(crc32c(rising), 0x46dd794eU);
  EXPECT_EQ(crc32c(std::string(rising.rbegin(), rising.rend())), 0x113fdb5cU);
}

TEST(Crc32c, OfEveryLengthEqualsTheDefinition) {
  std::string data;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(crc32c(data), crc32c_by_bits(data)) << data.size();
    data += static_cast<char>(static_cast<unsigned char>(i * 37 % 256));
  }
}

TEST(Records, AreTheBytesThatTensorBoardsOwnWriterMakes) {
  // Made with tensorboard.summary.writer.record_writer of tensorboard 2.21.
  const unsigned char empty[] = {0,    0,    0,    0,    0,    0,    0,    0,
                                 0x29, 0x03, 0x98, 0x07, 0xd8, 0xea, 0x82, 0xa2};
  EXPECT_EQ(record(""), std::string(std::begin(empty), std::end(empty)));
}

TEST(Records, AreReadBack) {
  const std::vector<std::string> all = {"", "a", std::string(7, '\0'), std::string(100'000, 'x'),
                                        "end"};
  std::string bytes;
  for (const std::string& one : all) bytes += record(one);
  const auto found = read_records("some-file", bytes);
  EXPECT_EQ(std::vector<std::string>(found.begin(), found.end()), all);
  EXPECT_TRUE(read_records("some-file", "").empty());
}

TEST(Records, CutAnywhereAreCorruptWhereTheTornRecordBegins) {
  const std::string first = record("first"), whole = first + record("the second one");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const std::int64_t begin = length < first.size() ? 0 : static_cast<std::int64_t>(first.size());
    const bool between = length == 0 || length == first.size();
    EXPECT_EQ(trouble(whole.substr(0, length)), between ? -1 : begin) << length;
  }
}

TEST(Records, WithAnyBitFlippedAreCorruptAtThatRecord) {
  const std::string first = record("first"), whole = first + record("the second one");
  for (std::size_t place = 0; place < whole.size(); ++place)
    for (unsigned bit = 0; bit < 8; ++bit) {
      std::string altered = whole;
      altered[place] = static_cast<char>(static_cast<unsigned char>(altered[place]) ^ (1U << bit));
      EXPECT_EQ(trouble(altered),
                place < first.size() ? 0 : static_cast<std::int64_t>(first.size()))
          << place << " bit " << bit;
    }
}

TEST(Records, ThatClaimToBeHugeAreRefused) {
  for (const std::uint64_t size :
       {~std::uint64_t{0}, ~std::uint64_t{0} - 15, std::uint64_t{1} << 63U, std::uint64_t{1} << 32U,
        std::uint64_t{21}, std::uint64_t{17}}) {
    std::string bytes;
    for (unsigned i = 0; i < 8; ++i) bytes += static_cast<char>((size >> (8U * i)) & 0xffU);
    const std::uint32_t crc = masked_crc32c(bytes);
    for (unsigned i = 0; i < 4; ++i) bytes += static_cast<char>((crc >> (8U * i)) & 0xffU);
    EXPECT_EQ(trouble(record("sound") + bytes + std::string(20, 'x')), 21) << size;
  }
}

}  // namespace records_test
