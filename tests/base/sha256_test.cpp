#include "base/sha256.h"

#include <gtest/gtest.h>
#include <lockstep/error.h>

#include <cstdio>
#include <stdexcept>

#include "base/temp_folder.h"

namespace sha256_test {

using namespace lockstep;
using namespace lockstep::base;
using lockstep::test::put;
using lockstep::test::TempFolder;

std::string sum_of(std::string_view text) {
  Sha256 sum;
  sum.update(text);
  return sum.hex();
}

/// The first word that the program prints.
std::string sha256sum(const std::string& path) {
  FILE* pipe = ::popen(("sha256sum '" + path + "'").c_str(), "r");
  if (!pipe) throw std::runtime_error("no sha256sum");
  char digits[65] = {};
  const int found = std::fscanf(pipe, "%64s", digits);
  if (::pclose(pipe) != 0 || found != 1) throw std::runtime_error("sha256sum failed");
  return digits;
}

// The examples of FIPS 180-2, and of nothing at all.
TEST(Sha256, GivesThePublishedSums) {
  EXPECT_EQ(sum_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sum_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sum_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Sha256, PiecesGiveTheSumOfTheWholeAndMayFollowAReading) {
  Sha256 sum;
  EXPECT_EQ(sum.hex(), sum_of(""));
  sum.update("a");
  EXPECT_EQ(sum.hex(), sum_of("a"));
  sum.update(std::span<const std::byte>());
  sum.update("bc");
  EXPECT_EQ(sum.hex(), sum_of("abc"));
}

TEST(Sha256, OfAFileIsWhatSha256sumPrints) {
  const TempFolder folder;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, (std::size_t{1} << 20U) + 1}) {
    put(folder / "file", std::string(size, 'x'));
    EXPECT_EQ(sha256_of_file(folder / "file"), sha256sum(folder / "file")) << size << " bytes";
  }
}

TEST(Sha256, OfAMissingFileIsAnIoError) {
  const TempFolder folder;
  EXPECT_THROW(sha256_of_file(folder / "none"), IoError);
}

}  // namespace sha256_test
