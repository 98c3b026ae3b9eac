#include "strategy/parts.h"

#include <lockstep/error.h>

#include <algorithm>

namespace lockstep::strategy {

Parts::Parts(const torch::nn::Module& model) {
  for (const auto& item : model.named_modules()) modules_.push_back({item.key(), item->get()});
  for (const auto& item : model.named_parameters())
    tensors_.push_back({item.key(), item->unsafeGetTensorImpl()});
  for (const auto& item : model.named_buffers())
    tensors_.push_back({item.key(), item->unsafeGetTensorImpl()});
}

void Parts::require_same(const torch::nn::Module& model) const {
  const Parts now(model);
  require_same(modules_, now.modules_, "the module ");
  require_same(tensors_, now.tensors_, "");
}

void Parts::require_same(const Named& before, const Named& now, const std::string& kind) {
  if (before == now) return;
  const auto is_in = [](const Named& list, const std::string& name) {
    return std::ranges::find(list, name, &Named::value_type::first) != list.end();
  };
  const auto [was, is] = std::ranges::mismatch(before, now);
  const bool gone = was != before.end() && !is_in(now, was->first);
  const bool fresh = !gone && is != now.end() && !is_in(before, is->first);
  const std::string& name = gone || is == now.end() ? was->first : is->first;
  throw ConfigError(kind + "'" + name + "' was " +
                    (gone    ? "taken away"
                     : fresh ? "registered"
                             : "replaced") +
                    " after the towers were made, in one of them only, and would not be trained. "
                    "Do it in the model's constructor, or in the function that you give to "
                    "Mirrored::from.");
}

}  // namespace lockstep::strategy
