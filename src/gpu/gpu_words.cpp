#include "gpu/gpu_words.h"

namespace lockstep::gpu {
namespace {

/// "13.2" for 13020, as CUDA counts.
std::string version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::string describe(std::string_view visible) {
  const std::string_view text = trimmed(visible);
  if (text.empty()) return "CUDA_VISIBLE_DEVICES is empty";
  return std::string("CUDA_VISIBLE_DEVICES is '").append(text).append("'");
}

/// Whether `visible` names no GPU on any machine.
bool hides_all(std::string_view visible) {
  const std::string_view text = trimmed(visible);
  return text.empty() || text.front() == '-' || text == "NoDevFiles";
}

}  // namespace

std::string why_no_gpu(const CudaFacts& facts, std::optional<std::string_view> visible) {
  if (facts.gpus > 0) return "";
  std::string reason;
  if (!facts.built)
    reason = "this program was built without CUDA (docs/cuda.md says how to build with it)";
  else if (facts.driver == 0)
    reason = "no NVIDIA driver is installed";
  else if (facts.driver_too_old)
    reason = "the NVIDIA driver is too old: it knows CUDA " + version(facts.driver) +
             " and this program is built with " + version(facts.runtime);
  else if (!facts.error.empty())
    reason = "CUDA says: " + facts.error;
  else if (visible)
    return "none is visible: " + describe(*visible);
  else
    return "the NVIDIA driver finds none";
  if (visible && hides_all(*visible)) reason += "; besides, " + describe(*visible);
  return reason;
}

std::string physical_name(int number, std::optional<std::string_view> visible) {
  if (!visible) return std::to_string(number);
  std::string_view rest = *visible;
  for (int i = 0; i < number; ++i) {
    const auto comma = rest.find(',');
    if (comma == std::string_view::npos) return "";
    rest.remove_prefix(comma + 1);
  }
  return std::string(trimmed(rest.substr(0, rest.find(','))));
}

}  // namespace lockstep::gpu
