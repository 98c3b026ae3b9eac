#include "strategy/ready_hook.h"

#include <lockstep/error.h>
#include <torch/csrc/autograd/function_hook.h>

#include <memory>
#include <utility>

namespace lockstep::strategy {
namespace {

class ReadyHook : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit ReadyHook(std::function<void()> ready) : ready_(std::move(ready)) {}
  void operator()(const torch::autograd::Variable&) override { ready_(); }

 private:
  std::function<void()> ready_;
};

}  // namespace

void call_when_ready(const torch::Tensor& parameter, std::function<void()> ready) {
  torch::autograd::impl::set_post_acc_grad_hooks(parameter,
                                                 std::make_unique<ReadyHook>(std::move(ready)));
}

void call_no_more(const std::vector<arena::Entry>& parameters) {
  for (const arena::Entry& entry : parameters)
    torch::autograd::impl::set_post_acc_grad_hooks(entry.tensor, nullptr);
}

void note_ready(Tower& tower, std::size_t parameter, const std::string& name,
                const char* function) {
  if (tower.clock.stage() != Stage::backward)
    throw ConfigError(std::string(function) + " called backward(), and parameter '" + name +
                      "' got a gradient; return the loss, all of its parts added up, and leave "
                      "backward() to Lockstep.");
  if (std::exchange(tower.accumulated[parameter], char{1}))
    throw ConfigError("parameter '" + name +
                      "' got two gradients in one shard: a function of the model runs a backward "
                      "of its own on it; use torch::autograd::grad there.");
}

}  // namespace lockstep::strategy
