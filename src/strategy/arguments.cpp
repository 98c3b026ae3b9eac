#include <c10/util/ScopeExit.h>
#include <lockstep/detail/arguments.h>
#include <lockstep/error.h>

#include <functional>
#include <string_view>

namespace lockstep::detail {

namespace {

namespace nn = torch::nn;

using Undo = std::vector<std::function<void()>>;

template <class Kind>
void renew_options_of(nn::Module& module, Copies& copies, Undo& undo) {
  auto* const kind = dynamic_cast<Kind*>(&module);
  if (!kind) return;
  undo.push_back([kind, options = kind->options] { kind->options = options; });
  renew(kind->options, copies);
}

/// These modules of LibTorch register a tensor of their options, in reset() and so in clone(): a
/// clone would share it. Gives their options a copy of it; `undo` puts back what was there.
void renew_options(const nn::Module& whole, Copies& copies, Undo& undo) {
  for (const auto& module : whole.modules()) {
    renew_options_of<nn::EmbeddingImpl>(*module, copies, undo);
    renew_options_of<nn::EmbeddingBagImpl>(*module, copies, undo);
    renew_options_of<nn::BCELossImpl>(*module, copies, undo);
    renew_options_of<nn::BCEWithLogitsLossImpl>(*module, copies, undo);
    renew_options_of<nn::CrossEntropyLossImpl>(*module, copies, undo);
    renew_options_of<nn::MultiLabelSoftMarginLossImpl>(*module, copies, undo);
    renew_options_of<nn::MultiMarginLossImpl>(*module, copies, undo);
    renew_options_of<nn::NLLLossImpl>(*module, copies, undo);
    renew_options_of<nn::FractionalMaxPool2dImpl>(*module, copies, undo);
    renew_options_of<nn::FractionalMaxPool3dImpl>(*module, copies, undo);
  }
}

bool says_uncloneable(const c10::Error& error) {
  return std::string_view(error.what_without_backtrace())
             .find("clone() has not been implemented") != std::string_view::npos;
}

}  // namespace

Copies::Copies() : device_(torch::empty({0}).device()) {}

torch::Tensor Copies::of(const torch::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  torch::Tensor& copy = tensors_[tensor.unsafeGetTensorImpl()];
  if (copy.defined()) return copy;
  const torch::Tensor values = tensor.detach();
  copy = values.device() == device_ ? values.clone() : values.to(device_);
  return copy.set_requires_grad(tensor.requires_grad());
}

std::shared_ptr<nn::Module> Copies::of(const std::shared_ptr<nn::Module>& module) {
  if (const auto known = modules_.find(module.get()); known != modules_.end()) return known->second;
  std::shared_ptr<nn::Module> copy = module;
  note(*module, [&] {
    copy = module->clone(device_);
    return copy;
  });
  return copy;
}

nn::AnyModule Copies::of(const nn::AnyModule& module) {
  const std::shared_ptr<nn::Module> original = module.ptr();
  if (const auto known = any_modules_.find(original.get()); known != any_modules_.end())
    return known->second;
  nn::AnyModule copy = module;
  note(*original, [&] {
    copy = module.clone(device_);
    return copy.ptr();
  });
  any_modules_.emplace(original.get(), copy);
  return copy;
}

/// Calls `clone`, and remembers what was copied to where; a module without clone() to itself.
void Copies::note(const nn::Module& original,
                  const std::function<std::shared_ptr<nn::Module>()>& clone) {
  Undo undo;
  const auto put_back = c10::make_scope_exit([&] {
    for (const auto& each : undo) each();
  });
  renew_options(original, *this, undo);
  try {
    note(original, *clone());
  } catch (const c10::Error& error) {
    if (!says_uncloneable(error)) throw;
    note(original, original);
  }
}

/// Mends what clone() forgets, too: modes, which parameters are frozen, and the values of a
/// submodule without clone().
void Copies::note(const nn::Module& original, const nn::Module& copy) {
  const torch::NoGradGuard no_grad;
  const auto note_tensors = [this](const auto& originals, const auto& copies) {
    for (const auto& item : originals) {
      const torch::Tensor& tensor = item.value();
      const torch::Tensor* own = copies.find(item.key());
      if (!own || own->sizes() != tensor.sizes() || own->scalar_type() != tensor.scalar_type())
        throw ConfigError("a module among the constructor arguments has '" + item.key() +
                          "', which its clone() does not copy; register it in reset(), or make "
                          "the module in the model's constructor.");
      const auto known = tensors_.emplace(tensor.unsafeGetTensorImpl(), *own).first;
      if (!known->second.is_same(*own))
        throw ConfigError("'" + item.key() +
                          "' appears twice among the constructor arguments, and their copies would "
                          "be two tensors; make it in the model's constructor.");
      if (!own->is_same(tensor))
        torch::Tensor(*own).copy_(tensor).set_requires_grad(tensor.requires_grad());
    }
  };
  note_tensors(original.named_parameters(), copy.named_parameters());
  note_tensors(original.named_buffers(), copy.named_buffers());
  const auto originals = original.named_modules(), copies = copy.named_modules();
  std::vector<bool> modes;
  for (const auto& item : originals) modes.push_back(item.value()->is_training());
  for (std::size_t i = 0; i < modes.size(); ++i)
    if (const auto* own = copies.find(originals[i].key())) {
      (*own)->train(modes[i]);  // goes down to children, which come later
      modules_.emplace(originals[i].value().get(), *own);
    }
}

}  // namespace lockstep::detail
