// The safetensors format: golden bytes, what is written is read, and what is refused.

#include "io/safetensors.h"

#include <gtest/gtest.h>
#include <lockstep/error.h>

namespace safetensors_test {

using namespace lockstep;
using namespace lockstep::io;

SafetensorsHeader parse(std::string_view file) {
  return parse_safetensors("x.safetensors", std::as_bytes(std::span(file)));
}

/// A file: the length of `header` as 8 bytes, `header`, and so many bytes of data.
std::string file_of(const std::string& header, std::size_t data_bytes = 0) {
  std::string file;
  for (unsigned shift = 0; shift < 64; shift += 8)
    file += static_cast<char>(static_cast<unsigned char>(header.size() >> shift));
  return file + header + std::string(data_bytes, '\1');
}

/// The JSON of one tensor.
std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
         offsets + "}";
}

/// `file` must be refused at byte `offset` with a message that has `what`.
void expect_corrupt(const std::string& file, std::uint64_t offset, const std::string& what) {
  try {
    parse(file);
    FAIL() << "no CorruptFile: " << what;
  } catch (const CorruptFile& error) {
    EXPECT_EQ(error.path, "x.safetensors");
    EXPECT_EQ(error.offset, offset) << error.what();
    EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
  }
}

/// As above, with the header alone; `at` is the text that the offset must point to the end of.
void expect_corrupt_header(const std::string& header, const std::string& at,
                           const std::string& what) {
  const auto found = header.find(at);
  ASSERT_NE(found, std::string::npos) << at;
  expect_corrupt(file_of(header), 8 + found + at.size() - 1, what);
}

TEST(Safetensors, GoldenBytes) {
  const auto tensors = lay_out({{"b", "F32", {1, 2}}, {"n", "I64", {}}});
  const std::string header = safetensors_header(tensors, {{"format", "pt"}});
  const std::string json = R"({"__metadata__":{"format":"pt"},)"
                           R"("n":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
                           R"("b":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]}})";
  ASSERT_EQ(json.size(), 140U);
  EXPECT_EQ(header, std::string("\xb8\0\0\0\0\0\0\0", 8) + json + std::string(44, ' '));
}

TEST(Safetensors, WhatIsWrittenIsRead) {
  const auto tensors = lay_out({{"conv.weight", "F32", {2, 3}},
                                {"empty", "F16", {4, 0}},
                                {"steps", "I64", {}},
                                {"mask \"quoted\" \xc3\xa4\n", "BOOL", {5}}});
  const std::map<std::string, std::string> metadata = {{"a", ""}, {"", "b\\\""}};
  const std::string header = safetensors_header(tensors, metadata);
  const SafetensorsHeader found = parse(header + std::string(37, 'x'));
  EXPECT_EQ(found.tensors, tensors);
  EXPECT_EQ(found.metadata, metadata);
  EXPECT_EQ(found.data_begin, header.size());
}

// The bytes that safetensors 0.8.0 of PyPI writes for these four arrays.
TEST(Safetensors, ReadsWhatPythonWrote) {
  const std::string header =
      R"({"__metadata__":{"format":"np"},"n":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
      R"("b.bias":{"dtype":"F32","shape":[2],"data_offsets":[8,16]},)"
      R"("e":{"dtype":"F16","shape":[2,0],"data_offsets":[16,16]},)"
      R"("a":{"dtype":"U8","shape":[3],"data_offsets":[16,19]}}  )";
  const std::vector<TensorEntry> tensors = {{"n", "I64", {}, 0, 8},
                                            {"b.bias", "F32", {2}, 8, 16},
                                            {"e", "F16", {2, 0}, 16, 16},
                                            {"a", "U8", {3}, 16, 19}};
  EXPECT_EQ(parse(file_of(header, 19)), (SafetensorsHeader{tensors, {{"format", "np"}}, 264}));
}

TEST(Safetensors, NoTensorAtAllIsAFile) {
  EXPECT_EQ(parse(safetensors_header({}, {})), (SafetensorsHeader{{}, {}, 64}));
  EXPECT_EQ(parse(file_of("{}")), (SafetensorsHeader{{}, {}, 10}));
}

TEST(Safetensors, DataBeginsAtAMultipleOf64Bytes) {
  for (std::size_t length = 0; length < 130; ++length) {
    const std::string header = safetensors_header({}, {{"k", std::string(length, 'v')}});
    EXPECT_EQ(header.size() % 64, 0U) << length;
    EXPECT_EQ(parse(header).metadata.at("k").size(), length);
  }
}

TEST(Safetensors, LayOutAlignsEachTensorAndIsIndependentOfTheOrderGiven) {
  const std::vector<TensorEntry> given = {
      {"a", "U8", {3}}, {"c", "F32", {3}}, {"b", "F32", {}}, {"d", "BF16", {5}}, {"e", "F64", {1}}};
  const auto tensors = lay_out(given);
  std::string order;
  for (const TensorEntry& tensor : tensors) {
    order += tensor.name;
    EXPECT_EQ(tensor.begin % *dtype_bytes(tensor.dtype), 0U) << tensor.name;
  }
  EXPECT_EQ(order, "ebcda");
  EXPECT_EQ(tensors.back().end, 8U + 4 + 12 + 10 + 3);
  EXPECT_EQ(lay_out({given.rbegin(), given.rend()}), tensors);
}

TEST(Safetensors, TheWriterRefusesWhatTheReaderWould) {
  EXPECT_THROW(lay_out({{"a", "F31", {1}}}), std::logic_error);
  EXPECT_THROW(lay_out({{"a", "F32", {-1}}}), std::logic_error);
  EXPECT_THROW(safetensors_header(lay_out({{"a", "U8", {1}}, {"a", "U8", {1}}}), {}),
               std::logic_error);
  EXPECT_THROW(safetensors_header(lay_out({{"__metadata__", "U8", {1}}}), {}), std::logic_error);
  EXPECT_THROW(safetensors_header({{"a", "U8", {1}, 1, 2}}, {}), std::logic_error);
}

TEST(Safetensors, KnowsTheBytesOfEveryDtype) {
  const std::map<std::string, std::uint64_t> sizes = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1},
      {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
      {"U32", 4},  {"F32", 4}, {"I64", 8}, {"U64", 8},     {"F64", 8}};
  for (const auto& [dtype, bytes] : sizes) EXPECT_EQ(dtype_bytes(dtype), bytes) << dtype;
  EXPECT_FALSE(dtype_bytes("f32"));
  EXPECT_FALSE(dtype_bytes(""));
}

TEST(Safetensors, KeysComeInAnyOrderAndTensorsInTheOrderOfTheirBytes) {
  const auto found = parse(file_of(R"({"b":{"data_offsets":[2,3],"shape":[1],"dtype":"U8"}, )" +
                                       entry("a", "I16", "[ 1 ]", "[0,2]") + "}  ",
                                   3));
  ASSERT_EQ(found.tensors.size(), 2U);
  EXPECT_EQ(found.tensors[0], (TensorEntry{"a", "I16", {1}, 0, 2}));
  EXPECT_EQ(found.tensors[1], (TensorEntry{"b", "U8", {1}, 2, 3}));
}

TEST(Safetensors, ATruncatedFileIsRefusedAtEveryLength) {
  const auto tensors = lay_out({{"a", "F32", {3}}, {"b", "U8", {1}}});
  const std::string file = safetensors_header(tensors, {}) + std::string(13, 'x');
  EXPECT_NO_THROW(parse(file));
  for (std::size_t length = 0; length < file.size(); ++length)
    EXPECT_THROW(parse(file.substr(0, length)), CorruptFile) << length;
  expect_corrupt("", 0, "8 bytes");
  expect_corrupt("1234567", 7, "8 bytes");
}

TEST(Safetensors, AHeaderLongerThanTheFileIsRefused) {
  std::string file = file_of("{}");
  file[0] = 3;
  expect_corrupt(file, 0, "at most 2 bytes, found a length of 3");
  expect_corrupt(std::string(8, '\xff') + "{}", 0, "found a length of 18446744073709551615");
}

TEST(Safetensors, AHeaderOfMoreThan100MegabytesIsRefused) {
  const std::string file = file_of("{}" + std::string(100'000'000, ' '));
  expect_corrupt(file, 0, "at most 100000000 bytes, found a length of 100000002");
}

TEST(Safetensors, WhatIsNotJsonIsRefusedWhereItBreaks) {
  expect_corrupt(file_of(""), 8, "a JSON object");
  expect_corrupt(file_of(" {}"), 8, "a JSON object");
  expect_corrupt(file_of("[]"), 8, "a JSON object");
  expect_corrupt_header("{}x", "x", "JSON");
  expect_corrupt_header("{\"a\":}", "}", "JSON");
  expect_corrupt_header("{\"a\xff\":{}}", "\xff", "UTF-8");
  expect_corrupt(file_of("{\"a\":"), 12, "JSON");
}

TEST(Safetensors, AnythingWithoutAPlaceInTheHeaderIsRefused) {
  for (const char* value : {"1", "-1", "1.5", "null", "true", "\"text\"", "[]"})
    EXPECT_THROW(parse(file_of(std::string("{\"a\":") + value + "}")), CorruptFile) << value;
  for (const char* value : {"1", "-1", "1.5", "null", "{}", "[]"}) {
    const std::string text = std::string(R"({"__metadata__":{"k":)") + value + "}}";
    EXPECT_THROW(parse(file_of(text)), CorruptFile) << text;
  }
  for (const char* value : {"-1", "1.5", "1e3", "null", "\"1\"", "{}", "[1]", "[]", "false"}) {
    const std::string list = std::string("[") + value + "]";
    EXPECT_THROW(parse(file_of("{" + entry("a", "U8", list, "[0,0]") + "}")), CorruptFile) << list;
    const std::string pair = std::string("[0,") + value + "]";
    EXPECT_THROW(parse(file_of("{" + entry("a", "U8", "[0]", pair) + "}")), CorruptFile) << pair;
    EXPECT_THROW(parse(file_of("{" + entry("a", "U8", value, "[0,0]") + "}")), CorruptFile)
        << value;
  }
  expect_corrupt_header(R"({"a":{"dtype":["U8"],"shape":[],"data_offsets":[0,1]}})", "[",
                        "a text as dtype of \"a\"");
}

TEST(Safetensors, TheFieldsOfATensorAreThoseThree) {
  expect_corrupt_header(R"({"a":{"dtype":"U8","shape":[0]}})", "]}",
                        "dtype, shape and data_offsets of \"a\"");
  expect_corrupt_header(R"({"a":{"dtype":"U8","colour":1}})", "\"colour\"", "found \"colour\"");
  expect_corrupt_header("{" + entry("a", "F31", "[0]", "[0,0]") + "}", "\"F31\"", "found \"F31\"");
  expect_corrupt_header("{" + entry("a", "U8", "[0]", "[0]") + "}", R"(offsets":[0])",
                        "two data_offsets");
}

TEST(Safetensors, AKeyMayComeOnlyOnce) {
  const std::string a = entry("a", "U8", "[0]", "[0,0]");
  EXPECT_THROW(parse(file_of("{" + a + "," + a + "}")), CorruptFile);
  EXPECT_THROW(parse(file_of(R"({"__metadata__":{},"__metadata__":{}})")), CorruptFile);
  EXPECT_THROW(parse(file_of(R"({"__metadata__":{"k":"1","k":"1"}})")), CorruptFile);
  expect_corrupt_header(R"({"a":{"dtype":"U8","shape":[0],"dtype":"U8","data_offsets":[0,0]}})",
                        R"([0],"dtype")", "\"dtype\" again");
}

TEST(Safetensors, ShapesThatOverflowAreRefused) {
  const auto with = [](const std::string& shape) {
    return file_of("{" + entry("a", "F64", shape, "[0,0]") + "}");
  };
  for (const char* shape :
       {"[9223372036854775808]", "[18446744073709551616]", "[4294967296,4294967296]",
        "[2147483648,1073741824]", "[0,1152921504606846976]", "[0,4294967296,4294967296]",
        "[4294967296,4294967296,0]"})
    EXPECT_THROW(parse(with(shape)), CorruptFile) << shape;
  EXPECT_NO_THROW(parse(with("[0,1152921504606846975]")));
  std::string ones = "[0";
  for (int i = 0; i < 63; ++i) ones += ",1";
  EXPECT_NO_THROW(parse(with(ones + "]")));
  EXPECT_THROW(parse(with(ones + ",1]")), CorruptFile);
}

TEST(Safetensors, EveryByteBelongsToExactlyOneTensor) {
  const auto two = [](const std::string& first, const std::string& second, std::size_t bytes) {
    return file_of(
        "{" + entry("a", "U8", "[2]", first) + "," + entry("b", "U8", "[2]", second) + "}", bytes);
  };
  const std::uint64_t data = two("[0,2]", "[2,4]", 0).size();
  EXPECT_NO_THROW(parse(two("[0,2]", "[2,4]", 4)));
  EXPECT_NO_THROW(parse(two("[2,4]", "[0,2]", 4)));
  expect_corrupt(two("[0,2]", "[1,3]", 4), data + 2, "from byte 2 on (no hole, no overlap)");
  expect_corrupt(two("[0,2]", "[0,2]", 4), data + 2, "from byte 2 on (no hole, no overlap)");
  expect_corrupt(two("[0,2]", "[3,5]", 5), data + 2, "from byte 2 on (no hole, no overlap)");
  expect_corrupt(two("[1,3]", "[3,5]", 5), data, "from byte 0 on (no hole, no overlap)");
  expect_corrupt(two("[0,2]", "[2,4]", 3), data + 2, "no more than the 3 bytes for tensor \"b\"");
  expect_corrupt(two("[0,2]", "[2,4]", 5), data + 4, "the end of the file, found 1 byte");
}

TEST(Safetensors, TheBytesOfATensorAreThoseOfItsShape) {
  for (const char* offsets : {"[0,7]", "[0,9]", "[8,0]", "[0,18446744073709551615]"}) {
    const std::string file = file_of("{" + entry("a", "F32", "[2]", offsets) + "}", 8);
    EXPECT_THROW(parse(file), CorruptFile) << offsets;
  }
  expect_corrupt(file_of("{" + entry("a", "F32", "[2]", "[0,7]") + "}", 7), 62,
                 "the 8 bytes of its shape for tensor \"a\", found bytes 0 to 7");
}

TEST(Safetensors, DeepNestingIsRefusedAtItsSecondLevel) {
  const std::string deep(10'000'000, '[');
  expect_corrupt(file_of("{\"a\":" + deep), 13, "an object with dtype");
  std::string objects = "{";
  for (int i = 0; i < 100'000; ++i) objects += "\"a\":{";
  EXPECT_THROW(parse(file_of(objects)), CorruptFile);
}

TEST(Safetensors, AHostileNameIsCutAndEscapedInTheMessage) {
  const std::string name = "\\u001b[2J" + std::string(100'000, 'x');
  try {
    parse(file_of("{" + entry(name, "U8", "[1]", "[1,2]") + "}", 2));
    FAIL() << "no CorruptFile";
  } catch (const CorruptFile& error) {
    const std::string text = error.what();
    EXPECT_LT(text.size(), 300U);
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
  }
}

}  // namespace safetensors_test
