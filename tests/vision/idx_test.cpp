// IDX files: small ones written here, and the real Fashion-MNIST.

#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <lockstep/vision/idx.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

namespace idx_test {

using namespace lockstep;
using namespace lockstep::vision;
namespace fs = std::filesystem;
using FileText = std::string;

/// A file's content: 0 0 8 n, the sizes as big-endian numbers of four bytes, the data.
FileText idx(const std::vector<std::uint32_t>& sizes, const FileText& data) {
  FileText bytes = {0, 0, 8, static_cast<char>(sizes.size())};
  for (const std::uint32_t size : sizes)
    for (const unsigned shift : {24U, 16U, 8U, 0U})
      bytes += static_cast<char>(static_cast<unsigned char>(size >> shift));
  return bytes + data;
}

FileText counting(std::size_t count) {
  FileText data;
  for (std::size_t i = 0; i < count; ++i)
    data += static_cast<char>(static_cast<unsigned char>(i * 7 % 256));
  return data;
}

class Idx : public testing::Test {
 protected:
  Idx() {
    std::string name = (fs::temp_directory_path() / "lockstep-idx-XXXXXX").string();
    if (!mkdtemp(name.data())) throw IoError(name, "make", errno);
    folder_ = name;
  }
  ~Idx() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string folder() const { return folder_.string(); }

  std::string write(const std::string& name, const FileText& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }

  std::string write_gz(const std::string& name, const FileText& bytes) const {
    gzFile file = gzopen(path(name).c_str(), "wb");
    const int written = gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    if (gzclose(file) != Z_OK || written != static_cast<int>(bytes.size()))
      throw IoError(path(name), "write", EIO);
    return path(name);
  }

  /// The test split of a Fashion-MNIST folder.
  void write_split(const FileText& images, const FileText& labels) const {
    write_gz("t10k-images-idx3-ubyte.gz", images);
    write_gz("t10k-labels-idx1-ubyte.gz", labels);
  }

 private:
  fs::path folder_;
};

void expect_content(const torch::Tensor& found, torch::IntArrayRef sizes, const FileText& data) {
  EXPECT_EQ(found.scalar_type(), torch::kUInt8);
  EXPECT_EQ(found.sizes(), sizes);
  ASSERT_EQ(found.nbytes(), data.size());
  EXPECT_EQ(FileText(static_cast<const char*>(found.const_data_ptr()), data.size()), data);
}

/// Reading `path` must throw CorruptFile at `offset`, with a message that has the path and `what`.
template <class Read>
void expect_corrupt(const std::string& path, std::uint64_t offset, const std::string& what,
                    Read read) {
  try {
    read();
    FAIL() << path << " was read";
  } catch (const CorruptFile& error) {
    EXPECT_EQ(error.path, path);
    EXPECT_EQ(error.offset, offset) << error.what();
    EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
  }
}

void expect_corrupt(const std::string& path, std::uint64_t offset, const std::string& what) {
  expect_corrupt(path, offset, what, [&] { read_idx(path); });
}

TEST_F(Idx, PlainFilesOfOneToFourDimensionsAreReadBack) {
  expect_content(read_idx(write("1", idx({5}, counting(5)))), {5}, counting(5));
  expect_content(read_idx(write("2", idx({3, 4}, counting(12)))), {3, 4}, counting(12));
  expect_content(read_idx(write("3", idx({2, 3, 300}, counting(1800)))), {2, 3, 300},
                 counting(1800));
  expect_content(read_idx(write("4", idx({2, 1, 3, 2}, counting(12)))), {2, 1, 3, 2}, counting(12));
}

TEST_F(Idx, GzippedFilesAreReadBackWhateverTheirName) {
  const FileText data = counting(70000);
  expect_content(read_idx(write_gz("a.gz", idx({70, 1000}, data))), {70, 1000}, data);
  expect_content(read_idx(write_gz("no-suffix", idx({70, 1000}, data))), {70, 1000}, data);
}

TEST_F(Idx, FilesWithoutAnyItemAreReadBack) {
  EXPECT_EQ(read_idx(write("none", idx({0}, ""))).sizes(), torch::IntArrayRef({0}));
  EXPECT_EQ(read_idx(write("flat", idx({3, 0, 4}, ""))).sizes(), torch::IntArrayRef({3, 0, 4}));
}

TEST_F(Idx, AFileThatEndsEarlyIsCorruptWhereItEnds) {
  const FileText whole = idx({2, 5}, counting(10));
  expect_corrupt(write("empty", ""), 0, "first four bytes");
  expect_corrupt(write("magic", whole.substr(0, 3)), 3, "first four bytes");
  expect_corrupt(write("size", whole.substr(0, 10)), 10, "size of a dimension");
  expect_corrupt(write("data", whole.substr(0, 21)), 21, "as many bytes");
}

TEST_F(Idx, EveryBeginningOfAFileIsCorrupt) {
  const FileText whole = idx({2, 50}, counting(100));
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_THROW(read_idx(write("plain", whole.substr(0, length))), CorruptFile) << length;
}

TEST_F(Idx, EveryBeginningOfAGzippedFileIsCorrupt) {
  const std::string complete = write_gz("complete.gz", idx({2, 50}, counting(100)));
  FileText zipped(fs::file_size(complete), 0);
  std::ifstream(complete, std::ios::binary)
      .read(zipped.data(), static_cast<std::streamsize>(zipped.size()));
  for (std::size_t length = 0; length < zipped.size(); ++length)
    EXPECT_THROW(read_idx(write("cut.gz", zipped.substr(0, length))), CorruptFile)
        << length << " of " << zipped.size() << " bytes";
}

TEST_F(Idx, AGzippedFileWithAFlippedByteIsCorrupt) {
  const std::string file = write_gz("flipped.gz", idx({200}, counting(200)));
  std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
  stream.seekp(-6, std::ios::end);  // in the checksum
  stream.put('\x5a').put('\x5b');
  stream.close();
  EXPECT_THROW(read_idx(file), CorruptFile);
}

TEST_F(Idx, AnotherMagicIsRefused) {
  const FileText good = idx({2}, counting(2));
  for (const auto& [place, value] :
       std::vector<std::pair<std::size_t, char>>{{0, 1}, {1, 1}, {2, 9}, {2, 13}, {3, 0}, {3, 5}}) {
    FileText bad = good;
    bad[place] = value;
    expect_corrupt(write("magic", bad), 0, "0 0 8 n");
  }
}

TEST_F(Idx, TrailingBytesAreRefused) {
  expect_corrupt(write("plain", idx({3}, counting(4))), 11, "the end of the file");
  expect_corrupt(write_gz("zipped.gz", idx({3}, counting(4))), 11, "the end of the file");
}

TEST_F(Idx, HugeDimensionsAreRefusedBeforeMemoryIsTaken) {
  constexpr std::uint32_t kMost = 0xffffffffU;
  expect_corrupt(write("four", idx({kMost, kMost, kMost, kMost}, "")), 8, "16 GiB");
  expect_corrupt(write("two", idx({1U << 17U, (1U << 17U) + 1}, "")), 8, "16 GiB");
  expect_corrupt(write("overflow", idx({1U << 31U, 1, 1U << 31U, 4}, "")), 12, "16 GiB");
}

TEST_F(Idx, AShortFileThatClaimsToBeLargeIsCorrupt) {
  constexpr std::uint32_t kSide = 1U << 14U;  // 256 MiB in all
  expect_corrupt(write("claims", idx({kSide, kSide}, "abc")), 15, "as many bytes");
}

TEST_F(Idx, AMissingFileIsAnIoErrorWithItsPath) {
  const std::string missing = path("not-there");
  try {
    read_idx(missing);
    FAIL() << "a missing file was read";
  } catch (const IoError& error) {
    EXPECT_EQ(error.path, missing);
    EXPECT_EQ(error.error_number, ENOENT);
    EXPECT_NE(std::string(error.what()).find(missing), std::string::npos) << error.what();
  }
  EXPECT_THROW(fashion_mnist(Subset::train, folder()), IoError);
}

TEST_F(Idx, AFileTheSystemRefusesToReadIsAnIoErrorNotACorruptFile) {
  try {
    read_idx(folder());
    FAIL() << "a folder was read";
  } catch (const IoError& error) {
    EXPECT_EQ(error.error_number, EISDIR);
  } catch (const CorruptFile& error) {
    ADD_FAILURE() << error.what();
  }
}

TEST_F(Idx, ImagesBecomeFloatsFrom0To1WithAChannel) {
  write_split(idx({2, 1, 3}, FileText("\x00\x33\xff\xff\x66\x00", 6)),
              idx({2}, FileText("\x09\x00", 2)));
  const LabelledImages found = fashion_mnist(Subset::test, folder());
  EXPECT_EQ(found.images.sizes(), torch::IntArrayRef({2, 1, 1, 3}));
  EXPECT_EQ(found.images.scalar_type(), torch::kFloat32);
  EXPECT_TRUE(
      torch::equal(found.images.flatten(), torch::tensor({0.F, 0.2F, 1.F, 1.F, 0.4F, 0.F})));
  EXPECT_TRUE(torch::equal(found.labels, torch::tensor({9, 0}, torch::kInt64)));
}

TEST_F(Idx, AMissingFashionMnistFolderNamesDebiansPackage) {
  try {
    fashion_mnist(Subset::train, path("not-there"));
    FAIL() << "a missing folder was read";
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find(path("not-there")), std::string::npos) << text;
    EXPECT_NE(text.find("dataset-fashion-mnist"), std::string::npos) << text;
  }
}

TEST_F(Idx, ALabelAbove9IsCorruptWhereItStands) {
  write_split(idx({3, 1, 2}, counting(6)), idx({3}, FileText("\x09\x0a\x00", 3)));
  expect_corrupt(path("t10k-labels-idx1-ubyte.gz"), 9, "a label from 0 to 9, not 10",
                 [this] { fashion_mnist(Subset::test, folder()); });
}

TEST_F(Idx, OneLabelAnImageIsRequired) {
  const auto read = [this] { fashion_mnist(Subset::test, folder()); };
  write_split(idx({2, 1, 3}, counting(6)), idx({3}, counting(3)));
  expect_corrupt(path("t10k-labels-idx1-ubyte.gz"), 4, "2 labels", read);
  write_split(idx({2, 1, 3}, counting(6)), idx({2, 1}, counting(2)));
  expect_corrupt(path("t10k-labels-idx1-ubyte.gz"), 4, "2 labels", read);
  write_split(idx({2, 3}, counting(6)), idx({2}, counting(2)));
  expect_corrupt(path("t10k-images-idx3-ubyte.gz"), 3, "three dimensions", read);
}

TEST(FashionMnist, LoadsFromDebiansPackage) {
  for (const bool train : {true, false}) {
    const std::int64_t count = train ? 60000 : 10000;
    const LabelledImages found = fashion_mnist(train ? Subset::train : Subset::test);
    EXPECT_EQ(found.images.sizes(), torch::IntArrayRef({count, 1, 28, 28}));
    EXPECT_EQ(found.images.min().item<float>(), 0.F);
    EXPECT_EQ(found.images.max().item<float>(), 1.F);
    // Published for the training images: 0.2860; those of the test differ by less than 0.001.
    EXPECT_NEAR(found.images.mean().item<double>(), 0.286, 0.001);
    const torch::Tensor classes = torch::bincount(found.labels);
    EXPECT_TRUE(torch::equal(classes, torch::full({10}, count / 10, torch::kInt64))) << classes;
  }
}

}  // namespace idx_test
