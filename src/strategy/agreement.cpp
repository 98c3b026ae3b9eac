#include "strategy/agreement.h"

#include <ATen/Version.h>
#include <lockstep/device.h>
#include <lockstep/error.h>
#include <torch/version.h>

#include <cstdio>
#include <cstring>

#include "base/hash.h"
#include "base/letter.h"
#include "base/version.h"

namespace lockstep::strategy {
namespace {

/// The words of some bytes, each mixed with its place.
std::uint64_t hash_of(const char* bytes, std::size_t left) {
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

std::uint64_t hash_of(const torch::Tensor& tensor) {
  const torch::Tensor values = tensor.detach().cpu().contiguous();
  return hash_of(static_cast<const char*>(values.const_data_ptr()), values.nbytes());
}

std::string words_of(std::uint64_t hash) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

std::string fingerprint_of(const std::string& text) {
  return words_of(hash_of(text.data(), text.size()));
}

/// Sums of many numbers by each of the libraries that LibTorch computes with. Machines whose CPUs
/// look alike may still take different ways, by the sizes of their caches for one.
std::vector<torch::Tensor> sample() {
  const torch::NoGradGuard no_grad;
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto numbers = [](at::IntArrayRef sizes) {
    std::int64_t count = 1;
    for (const std::int64_t size : sizes) count *= size;
    // Exact in any order, and without a pattern that would hide roundings.
    return torch::arange(count, at::kLong)
        .mul_(7919)
        .remainder_(10007)
        .to(at::kFloat)
        .div_(5003.5F)
        .sub_(1)
        .reshape(sizes);
  };
  std::vector<torch::Tensor> found;
  const torch::Tensor left = numbers({67, 301}), right = numbers({301, 131});
  found.push_back(left.mm(right));
  found.push_back(left.mv(right.select(1, 0).contiguous()));
  found.push_back(left.sum(1));
  found.push_back(left.exp().log_softmax(1).tanh());
  found.push_back(torch::conv2d(numbers({2, 16, 19, 17}), numbers({24, 16, 3, 3})));
  found.push_back(torch::layer_norm(left, {301}));
  found.push_back(std::get<0>(
      torch::lstm(numbers({5, 7, 24}), {numbers({1, 7, 40}), numbers({1, 7, 40})},
                  {numbers({160, 24}), numbers({160, 40})}, /*has_biases=*/false, /*num_layers=*/1,
                  /*dropout=*/0, /*train=*/false, /*bidirectional=*/false, /*batch_first=*/false)));
  at::set_num_threads(threads);
  return found;
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
  return words_of(hash);
}

Statements program_statements(const std::string& instructions) {
  return {{"the version of Lockstep", base::version()},
          {"LibTorch", TORCH_VERSION},
          {"oneDNN", at::get_mkldnn_version()},
          {"MKL", at::get_mkl_version()},
          {"CPU", instructions.empty() ? cpu_words() : instructions},
          {"instructions that LibTorch uses", at::get_cpu_capability()},
          {"how LibTorch was built", fingerprint_of(at::show_config())},
          {"what a sample of operators computes", fingerprint(sample())}};
}

Statements method_statements(const Method& method) {
  Statements statements;
  for (const auto& [name, value] : fields_of(method)) statements.emplace_back(name, value);
  return statements;
}

}  // namespace lockstep::strategy
