#pragma once

// What loss functions bring out of a step beside their loss.

#include <lockstep/loss.h>
#include <lockstep/metrics.h>
#include <torch/torch.h>

#include <map>
#include <string>
#include <vector>

namespace lockstep::strategy {

/// Of one shard, read from the device.
struct ShardResults {
  std::map<std::string, Mean> metrics;
  std::map<std::string, Loss::Output> outputs;
};

ShardResults read(const Loss& brought);

/// One tensor of parts that follow each other along `dim`. Throws ConfigError, naming `what`, when
/// they do not fit.
torch::Tensor joined(const std::vector<torch::Tensor>& parts, std::int64_t dim,
                     const std::string& what);

/// Adds up shards' metrics and joins their outputs, in the order in which they are added.
class StepResults {
 public:
  void add(const ShardResults& shard);

  const std::map<std::string, Mean>& metrics() const { return metrics_; }
  std::map<std::string, torch::Tensor> outputs() const;

 private:
  struct Parts {
    std::int64_t dim = 0;
    std::vector<torch::Tensor> rows;
  };
  std::map<std::string, Mean> metrics_;
  std::map<std::string, Parts> outputs_;
};

}  // namespace lockstep::strategy
