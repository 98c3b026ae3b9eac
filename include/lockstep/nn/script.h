#pragma once

// A model that Python wrote with torch.jit.save, as a torch::nn::Module: Mirrored trains it like a
// model written in C++. What holds and what does not: docs/torchscript.md.

#include <torch/torch.h>

#include <string>
#include <vector>

namespace lockstep::nn {

/// Every construction has its own tensors, on the device that torch::empty uses where it runs: on a
/// tower's in Mirrored. Parameters and buffers have the names of Python's state_dict, and those
/// with requires_grad are trained. As every module it starts in training mode, whatever the mode in
/// which it was saved; train() and eval() reach the script. LibTorch's profiling executor is off
/// for it: what that computes depends on how often a replica has run.
///
/// Throws ConfigError for a file that torch.jit.save did not write, for tensors that want gradients
/// and are not parameters, and for a forward() whose result would depend on the replica that runs
/// it: one that keeps values in attributes that are not buffers, or that calls torch.jit.fork.
class ScriptModule : public torch::nn::Module {
 public:
  explicit ScriptModule(const std::string& file);
  explicit ScriptModule(const torch::jit::Module& script);  ///< takes a copy

  /// The script's forward(), which returns a tensor.
  template <class... Inputs>
  torch::Tensor forward(const Inputs&... inputs) {
    return run({inputs...}).toTensor();
  }

  /// The script's forward(), whatever it returns.
  torch::jit::IValue run(std::vector<torch::jit::IValue> inputs);

  void train(bool on = true) override;

  /// Writes the script with its tensors as they are now, on the CPU, for torch.jit.load.
  void save(const std::string& file) const;
  using torch::nn::Module::save;

 private:
  struct Own {};  // no copy is taken
  ScriptModule(Own, torch::jit::Module script);

  torch::jit::Module script_;
};

}  // namespace lockstep::nn

namespace lockstep {

/// A holder of a ScriptModule: `Scripted net("net.pt")`. As a member that is registered, or as the
/// model itself: Mirrored<Scripted>.
class Scripted : public torch::nn::ModuleHolder<nn::ScriptModule> {
 public:
  using torch::nn::ModuleHolder<nn::ScriptModule>::ModuleHolder;
};

}  // namespace lockstep
