#include "strategy/agreement.h"

#include <ATen/Version.h>
#include <lockstep/error.h>
#include <torch/version.h>

#include <cstdio>
#include <cstring>

#include "base/hash.h"
#include "base/letter.h"
#include "device/cpu_words.h"

namespace lockstep::strategy {
namespace {

/// The words of `tensor`, each mixed with its place.
std::uint64_t hash_of(const torch::Tensor& tensor) {
  const torch::Tensor values = tensor.detach().cpu().contiguous();
  const auto* bytes = static_cast<const char*>(values.const_data_ptr());
  std::size_t left = values.nbytes();
  std::uint64_t hash = base::mix(left + 1);
  for (; left > 0; bytes += 8) {
    std::uint64_t word = 0;
    const std::size_t count = std::min<std::size_t>(left, 8);
    std::memcpy(&word, bytes, count);
    hash = (hash ^ word) * base::kGolden;
    hash ^= hash >> 29U;
    left -= count;
  }
  return base::mix(hash);
}

}  // namespace

void require_agreement(Machines& machines, const Statements& own, const std::string& advice) {
  base::Letter mine;
  mine.put(own.size());
  for (const auto& [name, value] : own) {
    mine.put(name);
    mine.put(value);
  }
  const std::vector<Bytes> all = machines.all_gather(mine.bytes());
  const auto read = [&](const Bytes& bytes) {
    base::LetterReader letter(bytes);
    Statements statements(letter.get<std::size_t>());
    for (auto& [name, value] : statements) {
      name = letter.text();
      value = letter.text();
    }
    return statements;
  };
  const Statements first = read(all.front());
  for (int rank = 1; rank < machines.size(); ++rank) {
    const Statements other = read(all[static_cast<std::size_t>(rank)]);
    for (std::size_t i = 0; i < std::max(first.size(), other.size()); ++i) {
      const auto none = std::pair<std::string, std::string>("", "nothing");
      const auto& [name, value] = i < first.size() ? first[i] : none;
      const auto& [other_name, other_value] = i < other.size() ? other[i] : none;
      if (name == other_name && value == other_value) continue;
      throw ConfigError(
          "the machines do not agree on '" + (name.empty() ? other_name : name) +
          "': " + machines.name(0) + " has " + value + ", " + machines.name(rank) + " has " +
          (name == other_name ? other_value : other_name + " " + other_value) + ". " + advice);
    }
  }
}

std::string fingerprint(const std::vector<torch::Tensor>& tensors) {
  std::uint64_t hash = 0;
  for (const torch::Tensor& tensor : tensors) hash = base::mix(hash + hash_of(tensor));
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

Statements program_statements() {
  return {{"LibTorch", TORCH_VERSION},
          {"CPU", device::cpu_words()},
          {"instructions that LibTorch uses", at::get_cpu_capability()}};
}

Statements method_statements(const Method& method) {
  Statements statements;
  for (const auto& [name, value] : fields_of(method)) statements.emplace_back(name, value);
  return statements;
}

}  // namespace lockstep::strategy
