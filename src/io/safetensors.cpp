#include "io/safetensors.h"

#include <lockstep/error.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "io/safetensors_json.h"

namespace lockstep::io {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMostHeaderBytes = 100'000'000;
constexpr std::uint64_t kAlignment = 64;

/// The bytes of a tensor, nothing when they (or its strides, with a size of 0) overflow.
std::optional<std::uint64_t> tensor_bytes(const TensorEntry& tensor) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  std::uint64_t product = dtype_bytes(tensor.dtype).value();
  bool empty = false;
  for (const std::int64_t size : tensor.shape) {
    if (size < 0) return std::nullopt;
    const auto factor = static_cast<std::uint64_t>(size);
    if (factor == 0) {
      empty = true;
    } else if (product > kMost / factor) {
      return std::nullopt;
    } else {
      product *= factor;
    }
  }
  return empty ? 0 : product;
}

std::uint64_t header_bytes(const std::string& path, std::span<const std::byte> file) {
  if (file.size() < kLengthBytes)
    throw CorruptFile(path, file.size(), "8 bytes with the length of a safetensors header");
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    length |= std::to_integer<std::uint64_t>(file[i]) << (8 * i);
  const std::uint64_t most = std::min(kMostHeaderBytes, file.size() - kLengthBytes);
  if (length > most)
    throw CorruptFile(path, 0,
                      "a safetensors header of at most " + std::to_string(most) +
                          " bytes, found a length of " + std::to_string(length));
  return length;
}

/// Throws unless the tensors, sorted by their bytes, cover the data: no overlap, hole or rest.
void check_layout(const std::string& path, const SafetensorsHeader& header,
                  std::uint64_t data_bytes) {
  std::uint64_t covered = 0;
  for (const TensorEntry& tensor : header.tensors) {
    const auto fail = [&](const std::string& expected) {
      throw CorruptFile(path, header.data_begin + covered,
                        expected + " for tensor " + readable(tensor.name) + ", found bytes " +
                            std::to_string(tensor.begin) + " to " + std::to_string(tensor.end));
    };
    const auto bytes = tensor_bytes(tensor);
    if (!bytes) fail("a shape of less than 2^63 bytes");
    if (tensor.begin != covered)
      fail("the data from byte " + std::to_string(covered) + " on (no hole, no overlap)");
    if (tensor.end < tensor.begin || tensor.end - tensor.begin != *bytes)
      fail("the " + std::to_string(*bytes) + " bytes of its shape");
    if (tensor.end > data_bytes) fail("no more than the " + std::to_string(data_bytes) + " bytes");
    covered = tensor.end;
  }
  if (covered != data_bytes)
    throw CorruptFile(path, header.data_begin + covered,
                      "the end of the file, found " + std::to_string(data_bytes - covered) +
                          " bytes that belong to no tensor");
}

}  // namespace

std::optional<std::uint64_t> dtype_bytes(std::string_view dtype) {
  struct Size {
    std::string_view dtype;
    std::uint64_t bytes;
  };
  constexpr std::array<Size, 15> kSizes = {{{"BOOL", 1},
                                            {"U8", 1},
                                            {"I8", 1},
                                            {"F8_E4M3", 1},
                                            {"F8_E5M2", 1},
                                            {"I16", 2},
                                            {"U16", 2},
                                            {"F16", 2},
                                            {"BF16", 2},
                                            {"I32", 4},
                                            {"U32", 4},
                                            {"F32", 4},
                                            {"I64", 8},
                                            {"U64", 8},
                                            {"F64", 8}}};
  const auto* found = std::find_if(kSizes.begin(), kSizes.end(),
                                   [&](const Size& size) { return size.dtype == dtype; });
  if (found == kSizes.end()) return std::nullopt;
  return found->bytes;
}

std::vector<TensorEntry> lay_out(std::vector<TensorEntry> tensors) {
  for (const TensorEntry& tensor : tensors)
    check(dtype_bytes(tensor.dtype) && tensor_bytes(tensor), "a tensor of a known dtype and size");
  std::sort(tensors.begin(), tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::tuple(*dtype_bytes(b.dtype), std::string_view(a.name)) <
           std::tuple(*dtype_bytes(a.dtype), std::string_view(b.name));
  });
  std::uint64_t end = 0;
  for (TensorEntry& tensor : tensors) {
    tensor.begin = end;
    tensor.end = end += *tensor_bytes(tensor);
  }
  return tensors;
}

std::string safetensors_header(const std::vector<TensorEntry>& tensors,
                               const std::map<std::string, std::string>& metadata) {
  std::set<std::string_view> names = {"__metadata__"};
  std::uint64_t end = 0;
  std::string text = "{";
  if (!metadata.empty()) text += "\"__metadata__\":" + OrderedJson(metadata).dump();
  for (const TensorEntry& tensor : tensors) {
    check(names.insert(tensor.name).second, "tensor names that are unique");
    check(tensor.begin == end && tensor.end - end == tensor_bytes(tensor), "tensors laid out");
    end = tensor.end;
    const OrderedJson entry = {{"dtype", tensor.dtype},
                               {"shape", tensor.shape},
                               {"data_offsets", {tensor.begin, tensor.end}}};
    text += (text.size() > 1 ? "," : "") + OrderedJson(tensor.name).dump() + ":" + entry.dump();
  }
  text += "}";
  const std::uint64_t unpadded = kLengthBytes + text.size();
  text.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  check(text.size() <= kMostHeaderBytes, "a safetensors header of at most 100 MB");
  std::string result;
  for (unsigned shift = 0; shift < 64; shift += 8)
    result += static_cast<char>(static_cast<unsigned char>(text.size() >> shift));
  return result + text;
}

SafetensorsHeader parse_safetensors(const std::string& path, std::span<const std::byte> file) {
  const std::uint64_t length = header_bytes(path, file);
  SafetensorsHeader header =
      parse_header_json(path, kLengthBytes, file.subspan(kLengthBytes, length));
  header.data_begin = kLengthBytes + length;
  std::stable_sort(header.tensors.begin(), header.tensors.end(),
                   [](const TensorEntry& a, const TensorEntry& b) {
                     return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
                   });
  check_layout(path, header, file.size() - header.data_begin);
  return header;
}

}  // namespace lockstep::io
