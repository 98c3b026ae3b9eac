#include "train/module_graph.h"

#include <torch/torch.h>

#include <algorithm>
#include <sstream>

namespace lockstep::train {
namespace {

/// "Conv2d" for "torch::nn::Conv2dImpl".
std::string kind_of(const torch::nn::Module& module) {
  std::string name = module.name();
  if (const auto at = name.rfind("::"); at != std::string::npos) name.erase(0, at + 2);
  if (name.ends_with("Impl")) name.resize(name.size() - 4);
  return name;
}

std::string sizes_of(const torch::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.scalar_type() << " " << tensor.sizes();
  return text.str();
}

}  // namespace

std::vector<events::GraphNode> module_graph(const torch::nn::Module& model) {
  std::vector<events::GraphNode> nodes;
  for (const auto& entry : model.named_modules("", /*include_self=*/false)) {
    const torch::nn::Module& module = *entry.value();
    const auto own = module.named_parameters(/*recurse=*/false);
    if (!module.children().empty() && own.is_empty()) continue;
    events::GraphNode node{.name = entry.key(), .op = kind_of(module)};
    std::ranges::replace(node.name, '.', '/');
    if (!module.children().empty()) node.name += "/own";
    for (const auto& parameter : own)
      node.attributes[parameter.key()] = sizes_of(parameter.value());
    nodes.push_back(std::move(node));
  }
  return nodes;
}

}  // namespace lockstep::train
