#include "load_model.h"

#include <lockstep/error.h>

#include <map>

namespace lockstep::apps {

bool takes_averages(const std::string& weights, const FoundCheckpoint& found) {
  const bool there = !found.checkpoint.state.averages.empty();
  if (weights == "averaged" && !there)
    throw ConfigError("'" + found.path + "' has no moving averages: --weights live.");
  return weights == "auto" ? there : weights == "averaged";
}

void load_weights(torch::nn::Module& model, const State& state, bool averaged) {
  std::map<std::string, torch::Tensor> values;
  for (const auto* tensors : {&state.parameters, &state.frozen, &state.buffers})
    for (const NamedTensor& tensor : *tensors) values[tensor.name] = tensor.value;
  if (averaged)
    for (const NamedTensor& tensor : state.averages) values[tensor.name] = tensor.value;
  const torch::NoGradGuard no_gradients;
  const auto load = [&](const std::string& name, torch::Tensor to) {
    const auto found = values.find(name);
    if (found == values.end() || found->second.sizes() != to.sizes())
      throw ConfigError("the checkpoint has no '" + name +
                        "' of the shape that its recipe asks for.");
    to.copy_(found->second);
  };
  for (const auto& parameter : model.named_parameters()) load(parameter.key(), parameter.value());
  for (const auto& buffer : model.named_buffers()) load(buffer.key(), buffer.value());
}

}  // namespace lockstep::apps
