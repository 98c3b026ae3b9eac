#include "device/random_stream.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <optional>

namespace lockstep::device {
namespace {

constexpr auto kMode = c10::DispatchKey::TESTING_ONLY_GenericMode;

/// The generator of the innermost scope of this thread; null outside.
thread_local const at::Generator* current = nullptr;

/// Position of the optional `generator` argument of an operator, if it has one.
std::optional<std::size_t> generator_argument(const c10::FunctionSchema& schema) {
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto& type = *schema.arguments()[i].type();
    if (type.kind() == c10::TypeKind::OptionalType &&
        type.castRaw<c10::OptionalType>()->getElementType()->kind() == c10::TypeKind::GeneratorType)
      return i;
  }
  return std::nullopt;
}

/// Boxed kernel of every random operator: fills an empty generator with the scope's, then calls on.
void draw_from_scope(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::size_t count = op.schema().arguments().size();
  c10::IValue& argument = (*stack)[stack->size() - count + *generator_argument(op.schema())];
  if (argument.isNone() && current) argument = c10::IValue(*current);
  const c10::impl::ExcludeDispatchKeyGuard exclude(kMode);
  op.callBoxed(stack);
}

/// Registers the kernels once for the process: a thread takes part only inside a scope.
void install() {
  static const auto* libraries = [] {
    auto* result = new std::vector<torch::Library>;
    result->emplace_back(torch::Library::IMPL, "_", kMode, __FILE__, __LINE__);
    result->back().fallback(torch::CppFunction::makeFallthrough());
    result->emplace_back(torch::Library::IMPL, "aten", kMode, __FILE__, __LINE__);
    for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
      const auto op = c10::Dispatcher::singleton().findSchema(name);
      if (!op || name.name.rfind("aten::", 0) != 0 || !generator_argument(op->schema())) continue;
      const std::string full =
          name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
      result->back().impl(full.c_str(),
                          torch::CppFunction::makeFromBoxedFunction<&draw_from_scope>());
    }
    return result;
  }();
  (void)libraries;
}

std::uint64_t mix(std::uint64_t x) {  // the finaliser of SplitMix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

std::uint64_t stream_seed(std::uint64_t seed, std::int64_t step, std::int64_t shard) {
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;
  std::uint64_t state = mix(seed + kGolden);
  state = mix(state + kGolden + static_cast<std::uint64_t>(step));
  return mix(state + kGolden + static_cast<std::uint64_t>(shard));
}

RandomScope::RandomScope(at::Generator generator)
    : generator_(std::move(generator)), outer_(current), include_((install(), kMode)) {
  current = &generator_;
}

RandomScope::~RandomScope() { current = outer_; }

}  // namespace lockstep::device
