#include "sim/operators.h"

#include <mutex>
#include <unordered_map>
#include <unordered_set>

namespace lockstep::sim {
namespace {

bool has_tensors(const c10::TypePtr& type) {
  if (type->kind() == c10::TypeKind::TensorType) return true;
  for (const c10::TypePtr& inner : type->containedTypes())
    if (has_tensors(inner)) return true;
  return false;
}

bool is_generator(const c10::TypePtr& type) {
  if (type->kind() == c10::TypeKind::GeneratorType) return true;
  return type->kind() == c10::TypeKind::OptionalType && is_generator(type->containedTypes()[0]);
}

bool is_one_of(const std::string& name, std::initializer_list<const char*> names) {
  for (const char* candidate : names)
    if (name == candidate) return true;
  return false;
}

/// Arguments that CUDA takes from the CPU too: indices, and lengths of packed sequences.
bool welcomes_cpu(const std::string& op, const c10::Argument& argument) {
  if (is_one_of(op, {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_",
                     "aten::_unsafe_index", "aten::_unsafe_index_put"}))
    return argument.name() == "indices";
  if (is_one_of(op, {"aten::_pack_padded_sequence"})) return argument.name() == "lengths";
  return false;
}

/// What an operator writes to, if it is training, though its schema does not say so. See "What is
/// checked" in docs/sim.md for how these were found.
bool updates_in_silence(const std::string& op, const c10::Argument& argument) {
  if (op == "aten::mkldnn_rnn_layer_backward") return argument.name() == "workspace";
  return is_one_of(op,
                   {"aten::native_batch_norm", "aten::cudnn_batch_norm", "aten::miopen_batch_norm",
                    "aten::batch_norm_update_stats", "aten::batch_norm_gather_stats",
                    "aten::batch_norm_gather_stats_with_counts"}) &&
         is_one_of(argument.name(), {"running_mean", "running_var"});
}

Operator read_schema(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  Operator result;
  result.name = schema.name();
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    const auto* alias = argument.alias_info();
    result.writes.push_back(alias && alias->isWrite());
    result.trains.push_back(updates_in_silence(result.name, argument));
    if (argument.name() == "training") result.training = static_cast<int>(i);
    result.may_mix.push_back(welcomes_cpu(result.name, argument));
    if (is_generator(argument.type())) result.generator = static_cast<int>(i);
  }
  for (const c10::Argument& returned : schema.returns()) {
    const auto* alias = returned.alias_info();
    if (alias && !alias->isWrite()) result.is_view = true;
    if (!alias || !alias->isWrite()) result.in_place = false;
    if (!has_tensors(returned.type())) result.host_waits = true;
  }
  if (is_one_of(result.name, {"aten::nonzero", "aten::masked_select", "aten::_unique",
                              "aten::_unique2", "aten::unique_dim", "aten::unique_consecutive"}))
    result.host_waits = true;
  result.has_cpu_results = result.name == "aten::_pack_padded_sequence";
  return result;
}

double multiply_adds(const Operator& op, const std::vector<at::Tensor>& inputs,
                     const at::Tensor& output) {
  const auto inner = [&](std::size_t i) {
    return inputs.size() > i && inputs[i].dim() > 0 ? static_cast<double>(inputs[i].size(-1)) : 1.0;
  };
  const auto elements = static_cast<double>(output.numel());
  if (is_one_of(op.name, {"aten::mm", "aten::bmm", "aten::mv", "aten::dot"}))
    return elements * inner(0);
  if (is_one_of(op.name, {"aten::addmm", "aten::baddbmm", "aten::addmv", "aten::addmm_",
                          "aten::_addmm_activation"}))
    return elements * inner(1);
  const auto filter = [](const at::Tensor& weight) {
    return static_cast<double>(weight.numel()) /
           static_cast<double>(std::max<std::int64_t>(weight.size(0), 1));
  };
  if (op.name == "aten::convolution_overrideable") return elements * filter(inputs[1]);
  if (op.name == "aten::convolution_backward_overrideable")
    return 2 * static_cast<double>(inputs[0].numel()) * filter(inputs[2]);
  return 0;
}

}  // namespace

const Operator& describe(const c10::OperatorHandle& op) {
  static std::mutex mutex;
  static auto* all = new std::unordered_map<const c10::FunctionSchema*, Operator>;
  thread_local std::unordered_map<const c10::FunctionSchema*, const Operator*> mine;
  const Operator*& known = mine[&op.schema()];
  if (!known) {
    const std::lock_guard lock(mutex);
    auto found = all->find(&op.schema());
    if (found == all->end()) found = all->emplace(&op.schema(), read_schema(op)).first;
    known = &found->second;
  }
  return *known;
}

Cost cost_of(const Operator& op, const std::vector<at::Tensor>& inputs,
             const std::vector<at::Tensor>& outputs) {
  Cost cost;
  double largest = 0;
  for (const auto* tensors : {&inputs, &outputs})
    for (const at::Tensor& tensor : *tensors) {
      if (!tensor.defined()) continue;
      cost.bytes += static_cast<double>(tensor.nbytes());
      largest = std::max(largest, static_cast<double>(tensor.numel()));
    }
  cost.arithmetic = largest;
  if (!outputs.empty() && outputs[0].defined())
    cost.arithmetic = std::max(largest, 2 * multiply_adds(op, inputs, outputs[0]));
  return cost;
}

}  // namespace lockstep::sim
