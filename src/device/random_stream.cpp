#include "device/random_stream.h"

#include <ATen/CPUGeneratorImpl.h>

#include <utility>

namespace lockstep::device {
namespace {

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;

std::uint64_t mix(std::uint64_t x) {  // the finaliser of SplitMix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

std::shared_ptr<Scope> scope_with(at::Generator generator) {
  auto scope = copy_of_current_scope();
  scope->cpu_generator =
      generator.device().is_cpu()
          ? generator
          : at::make_generator<at::CPUGeneratorImpl>(mix(generator.current_seed() + kGolden));
  scope->generator = std::move(generator);
  return scope;
}

}  // namespace

std::uint64_t stream_seed(std::uint64_t seed, std::int64_t step, std::int64_t shard) {
  std::uint64_t state = mix(seed + kGolden);
  state = mix(state + kGolden + static_cast<std::uint64_t>(step));
  return mix(state + kGolden + static_cast<std::uint64_t>(shard));
}

RandomScope::RandomScope(at::Generator generator) : guard_(scope_with(std::move(generator))) {}

}  // namespace lockstep::device
