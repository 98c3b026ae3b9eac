#include <lockstep/error.h>
#include <lockstep/nn/script.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/serialization/import.h>

#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "base/file.h"

namespace lockstep::nn {
namespace {

namespace jit = torch::jit;

/// "self.name" if `value` is an attribute of a module that is neither parameter nor buffer.
std::string plain_attribute(const jit::Value& value) {
  const jit::Node* node = value.node();
  if (node->kind() != c10::prim::GetAttr) return "";
  const auto type = node->input()->type()->cast<c10::ClassType>();
  const std::string& name = node->s(c10::attr::name);
  if (!type || !type->is_module()) return "";
  const std::size_t slot = type->getAttributeSlot(name);
  return type->is_parameter(slot) || type->is_buffer(slot) ? "" : "self." + name;
}

/// Refuses what would make the result depend on the tower: each runs its own copy of the script,
/// and how often depends on the number of devices.
class ForwardCheck {
 public:
  /// `name` is the script's in messages.
  ForwardCheck(const jit::Module& script, std::string name) : name_(std::move(name)) {
    const auto method = script.find_method("forward");
    if (!method)
      throw ConfigError(name_ + " has no forward(): export a torch.nn.Module with torch.jit.save.");
    const auto graph = method->graph()->copy();
    jit::Inline(*graph);
    check(*graph->block());
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw ConfigError("forward() of " + name_ + " " + what);
  }

  void check(const jit::Block& block) const {
    for (const jit::Node* node : block.nodes()) {
      if (node->kind() == c10::prim::SetAttr) check_assignment(*node);
      if (node->kind() == c10::prim::fork)
        refuse(
            "calls torch.jit.fork: the order in which its threads draw random numbers and add up "
            "gradients changes from run to run. Call the function itself.");
      check_writes(*node);
      for (const jit::Block* inner : node->blocks()) check(*inner);
    }
  }

  void check_assignment(const jit::Node& node) const {
    const auto type = node.input(0)->type()->cast<c10::ClassType>();
    if (type && type->is_module())
      refuse("assigns self." + node.s(c10::attr::name) +
             ": every tower would have its own. Make it a tensor with register_buffer, and write "
             "to it in place: copy_(), add_().");
  }

  void check_writes(const jit::Node& node) const {
    const c10::FunctionSchema* schema = node.maybeSchema();
    for (std::size_t i = 0; schema && i < schema->arguments().size(); ++i) {
      const c10::AliasInfo* alias = schema->arguments()[i].alias_info();
      const std::string written = alias && alias->isWrite() ? plain_attribute(*node.input(i)) : "";
      if (!written.empty())
        refuse("writes to " + written +
               ", which is not a buffer: every tower would have its own. Make it a tensor with "
               "register_buffer.");
    }
  }

  const std::string name_;
};

/// Refuses tensors that want gradients and that nobody would train.
void check_parameters(const jit::Module& script, const std::string& name) {
  std::unordered_set<const void*> known;
  for (const torch::Tensor& parameter : script.parameters())
    known.insert(parameter.unsafeGetTensorImpl());
  for (const auto& attribute : script.named_attributes())
    attribute.value.visit([&](const jit::IValue& value) {
      if (value.isTensor() && value.toTensor().requires_grad() &&
          !known.contains(value.toTensor().unsafeGetTensorImpl()))
        throw ConfigError("'" + attribute.name + "' of " + name +
                          " holds a tensor with requires_grad that is not a parameter: make it a "
                          "torch.nn.Parameter, or switch requires_grad off.");
      return false;
    });
}

/// See "Note: scripts" in docs/notes.md.
void run_without_profiling(const jit::Module& script) {
  for (const jit::Module& module : script.modules())
    for (jit::Function* function : module.type()->methods())
      if (jit::GraphFunction* graph = jit::tryToGraphFunction(*function))
        graph->_set_initial_executor_execution_mode(jit::SIMPLE);
}

jit::Module prepared(jit::Module script, const std::string& name) {
  const ForwardCheck checked(script, name);
  check_parameters(script, name);
  run_without_profiling(script);
  return script;
}

std::string quoted(const std::string& file) {
  std::string name = "'";
  return name.append(file).append("'");
}

torch::Device current_device() { return torch::empty({0}).device(); }

jit::Module read(const std::string& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error))
    throw ConfigError("there is no file " + quoted(file) + ": give one that torch.jit.save wrote.");
  try {
    return jit::load(file, current_device());
  } catch (const c10::Error& cause) {
    throw ConfigError(quoted(file) +
                      " is no model that torch.jit.save wrote: " + cause.what_without_backtrace());
  }
}

/// Through memory: the copy then also has its own functions, which nobody has run yet.
jit::Module copy_of(const jit::Module& script) {
  std::stringstream bytes;
  script.save(bytes);
  return jit::load(bytes, current_device());
}

}  // namespace

ScriptModule::ScriptModule(const std::string& file)
    : ScriptModule(Own{}, prepared(read(file), quoted(file))) {
  train();
}

ScriptModule::ScriptModule(const jit::Module& script)
    : ScriptModule(Own{}, prepared(copy_of(script), "the script")) {
  train();
}

ScriptModule::ScriptModule(Own, jit::Module script) : script_(std::move(script)) {
  for (const auto& item : script_.named_parameters(/*recurse=*/false))
    register_parameter(item.name, item.value, item.value.requires_grad());
  for (const auto& item : script_.named_buffers(/*recurse=*/false))
    register_buffer(item.name, item.value);
  for (const auto& item : script_.named_children())
    register_module(item.name, std::shared_ptr<ScriptModule>(new ScriptModule(Own{}, item.value)));
}

jit::IValue ScriptModule::run(std::vector<jit::IValue> inputs) {
  return script_.forward(std::move(inputs));
}

void ScriptModule::train(bool on) {
  torch::nn::Module::train(on);  // the children too
  if (const auto slot = script_.type()->findAttributeSlot("training"))
    script_._ivalue()->setSlot(*slot, on);
}

void ScriptModule::save(const std::string& file) const {
  const torch::AutoGradMode gradients(true);  // without, a copy would not have requires_grad
  bool on_cpu = true;
  for (const torch::Tensor& tensor : parameters()) on_cpu = on_cpu && tensor.is_cpu();
  const jit::Module copy = on_cpu ? script_ : script_.deepcopy(torch::Device(torch::kCPU));
  std::ostringstream content;
  copy.save(content);
  base::publish(file, content.view());
}

}  // namespace lockstep::nn
