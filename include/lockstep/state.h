#pragma once

// The state of a training as named tensors. It holds no device count.

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lockstep {

struct NamedTensor {
  std::string name;
  torch::Tensor value;
};

/// The weights before an update that is not long ago, which gradients to come are computed with.
struct OlderVersion {
  std::vector<NamedTensor> parameters = {}, buffers = {};
  double loss_scale = 0;  ///< of float16; 0: another precision
};

/// Copies, on the CPU, under the model's own parameter names.
struct State {
  std::int64_t steps = 0;    ///< taken, skipped ones included
  std::int64_t updates = 0;  ///< applied
  /// Updates of a parameter, by its name, where they are not all of `updates`: in some steps it had
  /// no gradient, or its slots were reset.
  std::map<std::string, std::int64_t> updates_of = {};
  double loss_scale = 0;  ///< of float16, and the good steps it has seen; 0: another precision
  std::int64_t good_steps = 0;
  std::vector<NamedTensor> parameters = {};  ///< the trainable ones
  std::vector<NamedTensor> slots = {};       ///< "fc.weight/exp_avg"
  std::vector<NamedTensor> averages = {};    ///< moving averages, if there are any
  std::vector<NamedTensor> buffers = {};
  std::vector<NamedTensor> frozen = {};  ///< parameters that never were trainable
  /// Fields of the method that set_optimizer changed, rates left out: see fields_of. A strategy
  /// that loads the state and has other values notes it in its next report.
  std::map<std::string, std::string> changed = {};
  std::vector<std::string> held = {};       ///< of `parameters`, those that are not trained now
  std::vector<NamedTensor> gradients = {};  ///< averaged (and clipped) gradient of the last step
  std::vector<OlderVersion> older = {};     ///< of Async, the oldest first
};

}  // namespace lockstep
