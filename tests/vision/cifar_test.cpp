#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <lockstep/vision/cifar.h>

#include "folder.h"

namespace cifar_test {

using namespace lockstep;
using namespace lockstep::vision;
using Bytes = std::vector<std::uint8_t>;

/// Rows whose pixels count on from their number.
Bytes rows(int count, int first_label = 0) {
  Bytes bytes;
  for (int row = 0; row < count; ++row) {
    bytes.push_back(static_cast<std::uint8_t>((first_label + row) % 10));
    for (int i = 0; i < 3072; ++i) bytes.push_back(static_cast<std::uint8_t>(row + i));
  }
  return bytes;
}

class Cifar : public testing::Test {
 protected:
  void expect_corrupt(const Bytes& bytes, std::uint64_t offset, const std::string& what) const {
    const std::string path = folder_.write("test_batch.bin", bytes);
    try {
      cifar10(Subset::test, folder_.path(), {}, 3);
      FAIL() << "read, expected: " << what;
    } catch (const CorruptFile& error) {
      EXPECT_EQ(error.path, path);
      EXPECT_EQ(error.offset, offset) << error.what();
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
  }

  tests::Folder folder_;
};

TEST_F(Cifar, TheFiveTrainingFilesFollowOneAnother) {
  for (int i = 1; i <= 5; ++i)
    folder_.write("data_batch_" + std::to_string(i) + ".bin", rows(2, 2 * (i - 1)));
  const ImageSet set = cifar10(Subset::train, folder_.path(), {}, 2);
  EXPECT_EQ(set.size(), 10);
  EXPECT_TRUE(torch::equal(set.labels(), torch::arange(10)));
  EXPECT_EQ(set.classes().size(), 10U);
  EXPECT_EQ(set.classes()[3], "cat");
}

TEST_F(Cifar, FilesOfAnyLengthAndFewerOfThemAreASetOfOnesOwn) {
  folder_.write("data_batch_1.bin", rows(2));
  folder_.write("data_batch_2.bin", rows(3, 2));
  EXPECT_TRUE(torch::equal(cifar10(Subset::train, folder_.path()).labels(), torch::arange(5)));
  folder_.write("data_batch_4.bin", rows(1));
  EXPECT_THROW(cifar10(Subset::train, folder_.path()), ConfigError) << "the third is missing";
  Bytes torn = rows(2);
  torn.pop_back();
  const std::string path = folder_.write("test_batch.bin", torn);
  try {
    cifar10(Subset::test, folder_.path());
    FAIL() << "half a row was read";
  } catch (const CorruptFile& error) {
    EXPECT_EQ(error.offset, 3073U) << error.what();
  }
}

TEST_F(Cifar, PlanesAreRedGreenAndBlue) {
  folder_.write("test_batch.bin", rows(3));
  const ImageSet set = cifar10(Subset::test, folder_.path(), {}, 3);
  EXPECT_EQ(set.images().sizes(), torch::IntArrayRef({3, 3, 32, 32}));
  EXPECT_EQ(set.images().scalar_type(), torch::kUInt8);
  EXPECT_EQ(set.images()[2][0][0][1].item<int>(), 3);
  EXPECT_EQ(set.images()[2][1][2][0].item<int>(), (2 + 1024 + 64) % 256);
  EXPECT_EQ(set.images()[1][2][31][31].item<int>(), (1 + 3071) % 256);
  const torch::data::Example<> item = set.at(0, 2);
  EXPECT_FLOAT_EQ(item.data[0][0][1].item<float>(), 3 / 255.F);
  EXPECT_EQ(item.target.item<int>(), 2);
}

TEST_F(Cifar, AFileOfAnotherLengthIsCorrupt) {
  const Bytes whole = rows(3);
  expect_corrupt({}, 0, "3 rows");
  expect_corrupt(rows(2), 2 * 3073, "3 rows of 3073 bytes, 9219 bytes");
  expect_corrupt(Bytes(whole.begin(), whole.end() - 1), 9218, "the file ends here");
  expect_corrupt(rows(4), 9219, "the end of the file");
  Bytes longer = whole;
  longer.push_back(0);
  expect_corrupt(longer, 9219, "the end of the file");
}

TEST_F(Cifar, AnotherLabelIsCorruptWhereItStands) {
  Bytes bytes = rows(3);
  bytes[2 * 3073] = 10;
  expect_corrupt(bytes, 2 * 3073, "a label from 0 to 9, not 10");
}

TEST_F(Cifar, TheNumberOfRowsCanBeRequired) {
  folder_.write("test_batch.bin", rows(3));
  EXPECT_THROW(cifar10(Subset::test, folder_.path(), {}, 10000), CorruptFile);
  EXPECT_EQ(cifar10(Subset::test, folder_.path()).size(), 3);
}

TEST_F(Cifar, AMissingFolderSaysWhatToUnpackAndAMissingFileItsName) {
  try {
    cifar10(Subset::train, folder_.path("not-there"));
    FAIL();
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find(folder_.path("not-there")), std::string::npos) << text;
    EXPECT_NE(text.find("cifar-10-binary.tar.gz"), std::string::npos) << text;
  }
  try {
    cifar10(Subset::train, folder_.path());
    FAIL();
  } catch (const IoError& error) {
    EXPECT_EQ(error.path, folder_.path("data_batch_1.bin"));
    EXPECT_EQ(error.error_number, ENOENT);
  }
}

}  // namespace cifar_test
