#include "strategy/results.h"

#include <lockstep/error.h>

namespace lockstep::strategy {

ShardResults read(const Loss& brought) {
  ShardResults results;
  for (const auto& [name, metric] : brought.metrics) {
    const auto value = metric.value.item<double>();
    results.metrics[name] = {metric.is_mean ? value * metric.weight : value, metric.weight};
  }
  for (const auto& [name, output] : brought.outputs)
    results.outputs[name] = {output.rows.cpu(), output.dim};
  return results;
}

torch::Tensor joined(const std::vector<torch::Tensor>& parts, std::int64_t dim,
                     const std::string& what) {
  try {
    return torch::cat(parts, dim);
  } catch (const c10::Error& error) {
    throw ConfigError(what +
                      " does not fit together over the shards: " + error.what_without_backtrace());
  }
}

void StepResults::add(const ShardResults& shard) {
  for (const auto& [name, mean] : shard.metrics) metrics_[name] += mean;
  for (const auto& [name, output] : shard.outputs) {
    Parts& parts = outputs_.try_emplace(name, Parts{output.dim, {}}).first->second;
    parts.rows.push_back(output.rows);
  }
}

std::map<std::string, torch::Tensor> StepResults::outputs() const {
  std::map<std::string, torch::Tensor> all;
  for (const auto& [name, parts] : outputs_)
    all[name] = joined(parts.rows, parts.dim, "output '" + name + "' of the loss");
  return all;
}

}  // namespace lockstep::strategy
