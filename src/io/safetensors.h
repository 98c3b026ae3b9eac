#pragma once

// The safetensors format: 8 bytes with the length of a JSON header, the header, the tensors' bytes
// without a hole. No tensor library in here; Python's `safetensors` reads and writes the same.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::io {

struct TensorEntry {
  std::string name;                 ///< UTF-8
  std::string dtype;                ///< "F32"; see dtype_bytes()
  std::vector<std::int64_t> shape;  ///< empty: one value
  std::uint64_t begin = 0;          ///< in bytes, from the start of the data
  std::uint64_t end = 0;            ///< one past the last byte

  bool operator==(const TensorEntry&) const = default;
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  ///< in the order of their bytes
  std::map<std::string, std::string> metadata;
  std::uint64_t data_begin = 0;  ///< in bytes, from the start of the file

  bool operator==(const SafetensorsHeader&) const = default;
};

/// The bytes of one value of a dtype, by the format's name: BOOL, U8, I8, F8_E4M3, F8_E5M2, I16,
/// U16, F16, BF16, I32, U32, F32, I64, U64, F64. Nothing for any other.
std::optional<std::uint64_t> dtype_bytes(std::string_view dtype);

/// Puts tensors in the order to write them (wide dtypes first, so that each is aligned; then by
/// name) and fills begin and end.
std::vector<TensorEntry> lay_out(std::vector<TensorEntry> tensors);

/// The start of a file whose data are `tensors` as lay_out() left them, up to where the data
/// begins: a multiple of 64 bytes.
std::string safetensors_header(const std::vector<TensorEntry>& tensors,
                               const std::map<std::string, std::string>& metadata);

/// Reads the header of `file`, the bytes of a whole file. What it returns is sound: known dtypes,
/// unique names, every tensor inside the file, every byte in one tensor. Otherwise throws
/// CorruptFile, at the latest after memory in proportion to the header; `path` is for the message.
SafetensorsHeader parse_safetensors(const std::string& path, std::span<const std::byte> file);

}  // namespace lockstep::io
