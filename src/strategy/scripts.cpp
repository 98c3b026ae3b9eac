#include "strategy/scripts.h"

#include <ATen/record_function.h>
#include <lockstep/error.h>
#include <torch/csrc/jit/api/module.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace lockstep::strategy {
namespace {

using Script = c10::intrusive_ptr<c10::ivalue::Object>;

thread_local Scripts* noting = nullptr;

std::unique_ptr<at::ObserverContext> note_call(const at::RecordFunction& call) {
  const auto inputs = call.inputs();
  if (noting && !inputs.empty() && inputs.front().isModule())
    noting->note(inputs.front().toObject());
  return nullptr;
}

/// For the whole process: LibTorch calls it for functions of scripts only.
void listen() {
  [[maybe_unused]] static const auto once =
      at::addGlobalCallback(at::RecordFunctionCallback(&note_call)
                                .needsInputs(true)
                                .scopes({at::RecordScope::TORCHSCRIPT_FUNCTION}));
}

std::string name_of(const Script& script) {
  const auto name = script->type()->name();
  return name ? name->name() : "";
}

/// Of it and all modules inside it, in order.
std::vector<bool> modes_of(const Script& script) {
  std::vector<bool> modes;
  for (const torch::jit::Module& module : torch::jit::Module(script).modules())
    if (module.hasattr("training")) modes.push_back(module.attr("training").toBool());
  return modes;
}

constexpr const char* kWhatToDo =
    " Hold the script as a lockstep::Scripted member, and register that as a module.";

}  // namespace

Scripts::Scope::Scope(Scripts& scripts) : outer_(std::exchange(noting, &scripts)) { listen(); }
Scripts::Scope::~Scope() { noting = outer_; }

std::vector<Scripts::Buffer> Scripts::buffers_of(const Script& script) {
  std::vector<Buffer> buffers;
  for (const auto& item : torch::jit::Module(script).named_buffers())
    buffers.push_back({item.name, item.value.unsafeGetTensorImpl(),
                       item.value.is_inference() ? 0 : item.value._version()});
  return buffers;
}

void Scripts::note(Script script) {
  for (const Ran& known : ran_)
    if (known.script == script) return;
  std::vector<Buffer> buffers = buffers_of(script);
  ran_.push_back({std::move(script), std::move(buffers)});
}

void Scripts::check(const arena::Tensors& registered) const {
  if (ran_.empty()) return;
  std::set<const void*> known;
  for (const auto* list : {&registered.trainable, &registered.frozen, &registered.buffers})
    for (const arena::Entry& entry : *list) known.insert(entry.tensor.unsafeGetTensorImpl());
  for (const Ran& ran : ran_) {
    const std::string of = "' of the script '" + name_of(ran.script) + "'";
    for (const auto& item : torch::jit::Module(ran.script).named_parameters())
      if (item.value.requires_grad() && item.value.grad().defined() &&
          !known.contains(item.value.unsafeGetTensorImpl()))
        throw ConfigError("'" + item.name + of +
                          " got a gradient, but is not registered, so it would never be trained." +
                          kWhatToDo + " If it is to stay as it is, switch its requires_grad off.");
    const std::vector<Buffer> now = buffers_of(ran.script);
    for (std::size_t i = 0; i < now.size(); ++i)
      if (now[i] != ran.buffers[i] && !known.contains(ran.buffers[i].tensor))
        throw ConfigError("the buffer '" + now[i].name + of +
                          " was written, but is not registered: every tower would have its own." +
                          kWhatToDo);
  }
}

void Scripts::require_same_modes(const std::string& device, const Scripts& other,
                                 const std::string& other_device) const {
  using Modes = std::map<std::string, std::vector<std::vector<bool>>>;
  const auto all_modes = [](const Scripts& scripts) {
    Modes modes;
    for (const Ran& ran : scripts.ran_) modes[name_of(ran.script)].push_back(modes_of(ran.script));
    for (auto& [name, list] : modes) std::ranges::sort(list);  // shards may run them in any order
    return modes;
  };
  if (ran_.empty() || other.ran_.empty()) return;
  const Modes mine = all_modes(*this), others = all_modes(other);
  for (const auto& [name, list] : mine) {
    const auto found = others.find(name);
    // A tower may have run more of them than another.
    if (found == others.end() || found->second.size() != list.size() || found->second == list)
      continue;
    throw ConfigError("the script '" + name + "' is in another mode on " + device + " than on " +
                      other_device + ": train() or eval() was called on that of one tower." +
                      kWhatToDo + " Its modes reach all towers.");
  }
}

}  // namespace lockstep::strategy
