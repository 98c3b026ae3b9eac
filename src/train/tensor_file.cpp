#include <lockstep/checkpoint.h>
#include <lockstep/error.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <utility>

#include "base/file.h"
#include "base/sha256.h"
#include "io/safetensors.h"
#include "train/tensor_file.h"

namespace lockstep {
namespace {

constexpr std::array<std::pair<const char*, torch::ScalarType>, 10> kTypes = {{
    {"BOOL", torch::kBool},
    {"U8", torch::kUInt8},
    {"I8", torch::kInt8},
    {"I16", torch::kInt16},
    {"I32", torch::kInt32},
    {"I64", torch::kInt64},
    {"F16", torch::kFloat16},
    {"BF16", torch::kBFloat16},
    {"F32", torch::kFloat32},
    {"F64", torch::kFloat64},
}};

std::string dtype_name(const NamedTensor& tensor) {
  for (const auto& [name, type] : kTypes)
    if (type == tensor.value.scalar_type()) return name;
  throw ConfigError("'" + tensor.name + "' is of type " + tensor.value.toString() +
                    ", which a safetensors file cannot hold.");
}

torch::ScalarType scalar_type(const std::string& path, const io::TensorEntry& entry) {
  for (const auto& [name, type] : kTypes)
    if (name == entry.dtype) return type;
  throw CorruptFile(path, 0,
                    "'" + entry.name + "' of a type that LibTorch has, not " + entry.dtype);
}

/// The bytes of a contiguous tensor on the CPU.
std::span<const std::byte> bytes_of(const torch::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

}  // namespace

namespace train {

bool can_hold(torch::ScalarType type) {
  return std::ranges::any_of(kTypes, [&](const auto& known) { return known.second == type; });
}

WrittenFile write_tensors(base::File& file, const std::vector<NamedTensor>& tensors,
                          std::map<std::string, std::string> metadata) {
  std::vector<io::TensorEntry> entries;
  std::map<std::string, torch::Tensor> values;
  for (const NamedTensor& tensor : tensors) {
    entries.push_back({tensor.name, dtype_name(tensor), tensor.value.sizes().vec()});
    values[tensor.name] = tensor.value.to(torch::kCPU).contiguous();
  }
  entries = io::lay_out(std::move(entries));
  WrittenFile written;
  base::Sha256 hash;
  const auto write = [&](std::span<const std::byte> bytes) {
    hash.update(bytes);
    file.write(bytes);
    written.bytes += bytes.size();
  };
  metadata["format"] = "pt";
  const std::string header = io::safetensors_header(entries, metadata);
  write(std::as_bytes(std::span(header)));
  for (const io::TensorEntry& entry : entries) write(bytes_of(values.at(entry.name)));
  written.sha256 = hash.hex();
  return written;
}

}  // namespace train

std::vector<NamedTensor> load_tensors(const std::string& path) {
  const base::MappedFile file(path);
  const io::SafetensorsHeader header = io::parse_safetensors(path, file.bytes());
  std::vector<NamedTensor> tensors;
  for (const io::TensorEntry& entry : header.tensors) {
    torch::Tensor value = torch::empty(entry.shape, scalar_type(path, entry));
    if (value.numel() > 0)
      std::memcpy(value.mutable_data_ptr(), file.bytes().data() + header.data_begin + entry.begin,
                  value.nbytes());
    tensors.push_back({entry.name, std::move(value)});
  }
  std::ranges::sort(tensors, {}, &NamedTensor::name);
  return tensors;
}

void save_tensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                  const std::map<std::string, std::string>& metadata) {
  base::publish(path, [&](base::File& file) { train::write_tensors(file, tensors, metadata); });
}

}  // namespace lockstep
