#include "device/random_stream.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <unordered_map>

#include "base/hash.h"

namespace lockstep::device {
namespace {

using base::kGolden;
using base::mix;

/// Towers run on two kinds of accelerators; any other kind may have no default generator.
bool lends(const at::Generator& generator) {
  return generator.device().is_cuda() || generator.device().is_privateuseone();
}

std::recursive_mutex& turn_at(c10::Device device) {
  static std::mutex mutex;
  static auto* turns = new std::unordered_map<c10::Device, std::recursive_mutex>;
  const std::scoped_lock lock(mutex);
  return (*turns)[device];
}

at::Tensor state_of(at::Generator& generator) {
  const std::scoped_lock lock(generator.mutex());
  return generator.get_state();
}

void set_state(at::Generator& generator, const at::Tensor& state) {
  const std::scoped_lock lock(generator.mutex());
  generator.set_state(state);
}

std::shared_ptr<Scope> scope_with(const at::Generator& generator, const LentStream* lent) {
  auto scope = copy_of_current_scope();
  scope->cpu_generator =
      generator.device().is_cpu()
          ? generator
          : at::make_generator<at::CPUGeneratorImpl>(mix(generator.current_seed() + kGolden));
  scope->generator = lent ? lent->borrower() : generator;
  return scope;
}

}  // namespace

std::uint64_t stream_seed(std::uint64_t seed, std::int64_t step, std::int64_t shard) {
  std::uint64_t state = mix(seed + kGolden);
  state = mix(state + kGolden + static_cast<std::uint64_t>(step));
  return mix(state + kGolden + static_cast<std::uint64_t>(shard));
}

LentStream::LentStream(const at::Generator& generator)
    : lender_(generator),
      default_(at::globalContext().defaultGenerator(generator.device())),
      turn_(turn_at(generator.device())),
      own_state_(state_of(default_)) {
  set_state(default_, state_of(lender_));
}

LentStream::~LentStream() {
  set_state(lender_, state_of(default_));
  set_state(default_, own_state_);
}

RandomScope::RandomScope(const at::Generator& generator)
    : lent_(lends(generator) ? std::optional<LentStream>(std::in_place, generator) : std::nullopt),
      guard_(scope_with(generator, lent_ ? &*lent_ : nullptr)) {}

}  // namespace lockstep::device
