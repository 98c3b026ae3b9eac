#include <lockstep/verify.h>

#include <bit>
#include <cstring>
#include <sstream>

namespace lockstep {
namespace {

std::string nine_digits(double value) {
  std::ostringstream text;
  text.precision(9);
  text << value;
  return text.str();
}

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  return std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

std::string element(const torch::Tensor& tensor, std::int64_t index) {
  if (!tensor.is_complex()) return nine_digits(tensor[index].item<double>());
  std::ostringstream text;
  text.precision(9);
  text << tensor[index].item<c10::complex<double>>();
  return text.str();
}

/// Says how two tensors of the same kind differ: how many elements, the first of them.
std::string describe(const torch::Tensor& expected, const torch::Tensor& found) {
  const torch::Tensor a = expected.contiguous().flatten(), b = found.contiguous().flatten();
  const auto size = static_cast<std::size_t>(a.element_size());
  const auto* bytes_a = static_cast<const std::byte*>(a.const_data_ptr());
  const auto* bytes_b = static_cast<const std::byte*>(b.const_data_ptr());
  std::int64_t count = 0, first = -1;
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    const std::size_t at = static_cast<std::size_t>(i) * size;
    if (std::memcmp(bytes_a + at, bytes_b + at, size) == 0) continue;
    if (count++ == 0) first = i;
  }
  return std::to_string(count) + " of " + std::to_string(a.numel()) +
         " elements differ, the first is number " + std::to_string(first) + ": " +
         element(b, first) + " instead of " + element(a, first);
}

std::string first_difference(const std::string& kind, const std::vector<NamedTensor>& expected,
                             const std::vector<NamedTensor>& found) {
  if (expected.size() != found.size()) return "the number of " + kind + "s differs";
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto& [name, a] = expected[i];
    const torch::Tensor& b = found[i].value;
    const std::string what = kind + " '" + name + "': ";
    if (name != found[i].name) return what + "the other has '" + found[i].name + "' here";
    if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type())
      return what + "the sizes or types differ";
    if (!same_bits(a.contiguous(), b.contiguous())) return what + describe(a, b);
  }
  return "";
}

std::string first_difference_in_updates(const State& expected, const State& found) {
  const auto updates = [](const State& state, const std::string& name) {
    const auto own = state.updates_of.find(name);
    return own == state.updates_of.end() ? state.updates : own->second;
  };
  for (const State* state : {&expected, &found})
    for (const auto& [name, number] : state->updates_of)
      if (const auto a = updates(expected, name), b = updates(found, name); a != b)
        return "updates of '" + name + "': " + std::to_string(b) + " instead of " +
               std::to_string(a);
  return "";
}

}  // namespace

std::string first_difference(const State& expected, const State& found) {
  for (const auto& [kind, part] : {std::pair{"gradient", &State::gradients},
                                   {"parameter", &State::parameters},
                                   {"slot", &State::slots},
                                   {"moving average", &State::averages},
                                   {"buffer", &State::buffers},
                                   {"frozen parameter", &State::frozen}}) {
    std::string difference = first_difference(kind, expected.*part, found.*part);
    if (!difference.empty()) return difference;
  }
  if (expected.older.size() != found.older.size()) return "the number of older versions differs";
  for (std::size_t i = 0; i < expected.older.size(); ++i) {
    const OlderVersion &a = expected.older[i], &b = found.older[i];
    std::string difference = first_difference("older parameter", a.parameters, b.parameters);
    if (difference.empty()) difference = first_difference("older buffer", a.buffers, b.buffers);
    if (difference.empty() && !same_bits(a.loss_scale, b.loss_scale))
      difference = "older loss scale";
    if (!difference.empty()) return difference;
  }
  if (const std::string difference = first_difference_in_updates(expected, found);
      !difference.empty())
    return difference;
  if (expected.held != found.held) return "other parameters are held";
  return "";
}

namespace detail {

MirroredOptions options_for(const MirroredOptions& options, int count) {
  if (count < 1 || static_cast<std::size_t>(count) > options.where.devices.size())
    throw ConfigError("verify was asked for " + std::to_string(count) + " devices, and there are " +
                      std::to_string(options.where.devices.size()) +
                      " in where.devices; give at least as many as the largest count.");
  MirroredOptions result = options;
  result.where.devices.resize(static_cast<std::size_t>(count));
  return result;
}

}  // namespace detail

namespace {

/// What differs after the same step on both; empty: nothing.
std::string compare_step(Job& expected, Job& found, int step) {
  const auto a = expected.step(), b = found.step();
  if (!a && !b)
    throw ConfigError("the input has ended after " + std::to_string(step) +
                      " steps; compare fewer, or give it more data.");
  if (!a || !b) return std::string("the input ") + (b ? "went on" : "ended");
  if (!same_bits(a->loss, b->loss))
    return "loss: " + nine_digits(b->loss) + " instead of " + nine_digits(a->loss);
  std::string difference = first_difference(expected.strategy().state(), found.strategy().state());
  if (difference.empty() && !same_bits(a->gradient_norm, b->gradient_norm))
    return "gradient norm: " + nine_digits(b->gradient_norm) + " instead of " +
           nine_digits(a->gradient_norm);
  return difference;
}

}  // namespace

Verification verify(const std::function<std::unique_ptr<Job>(int count)>& job_on,
                    const VerifyOptions& how) {
  for (std::size_t i = 1; i < how.counts.size(); ++i) {
    const auto expected = job_on(how.counts.front()), found = job_on(how.counts[i]);
    for (int step = 0; step < how.steps; ++step) {
      if (how.progress) how.progress(how.counts[i], step);
      if (const auto difference = compare_step(*expected, *found, step); !difference.empty())
        return {false, "step " + std::to_string(step) + ", " + std::to_string(how.counts[i]) +
                           " devices against " + std::to_string(how.counts.front()) + ": " +
                           difference};
    }
  }
  return {};
}

}  // namespace lockstep
