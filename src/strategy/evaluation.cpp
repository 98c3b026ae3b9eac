#include "strategy/evaluation.h"

#include "device/autocast.h"
#include "device/device_scope.h"
#include "device/random_stream.h"

namespace lockstep::strategy {
namespace {

/// Puts a replica into evaluation mode and back to exactly what it was, module by module.
class EvaluationMode {
 public:
  explicit EvaluationMode(Replica& replica) : replica_(replica) {
    for (const auto& module : replica.modules) training_.push_back(module->is_training());
    replica.module->eval();
  }
  ~EvaluationMode() {
    // train() goes down to children; they come after their parents here.
    for (std::size_t i = 0; i < training_.size(); ++i) replica_.modules[i]->train(training_[i]);
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  Replica& replica_;
  std::vector<bool> training_;
};

}  // namespace

void work_off(TaskQueue& tasks, const Evaluator& evaluator, const Method& method) {
  const torch::NoGradGuard no_grad;
  const EvaluationMode mode(evaluator.replica);
  const device::DeviceScope scope(evaluator.device);
  const device::AutocastScope autocast(evaluator.device.type(), method.precision);
  at::Generator generator = evaluator.generator;
  while (const auto task = tasks.pop()) {
    evaluator.begin();
    generator.set_current_seed(
        device::stream_seed(method.seed, device::kEvaluateStream, task->number));
    const device::RandomScope random(generator);
    task->run(evaluator.place);
    evaluator.end();
  }
}

std::exception_ptr feed(TaskQueue& tasks, const std::function<std::function<void(Place)>()>& next) {
  try {
    for (std::int64_t number = 0;; ++number) {
      std::function<void(Place)> task = next();
      if (!task || !tasks.push({number, std::move(task)})) break;
    }
    tasks.close();
    return nullptr;
  } catch (...) {
    tasks.cancel();
    return std::current_exception();
  }
}

}  // namespace lockstep::strategy
