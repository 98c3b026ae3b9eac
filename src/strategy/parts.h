#pragma once

// What a model consists of: it stays what it was when the towers were made.

#include <torch/torch.h>

#include <string>
#include <utility>
#include <vector>

namespace lockstep::strategy {

/// The modules, parameters and buffers that a model has registered, which must live on.
class Parts {
 public:
  explicit Parts(const torch::nn::Module& model);

  /// Throws ConfigError, with a name, when one was registered, replaced or taken away since.
  void require_same(const torch::nn::Module& model) const;

 private:
  using Named = std::vector<std::pair<std::string, const void*>>;
  static void require_same(const Named& before, const Named& now, const std::string& kind);

  Named modules_, tensors_;
};

}  // namespace lockstep::strategy
