#include "device/accelerator.h"
#include "strategy/core.h"
#include "strategy/evaluation.h"

namespace lockstep::strategy {

void Core::run_tasks(const std::function<Task()>& next) {
  torn_.require_whole();
  prepare_tasks();
  TaskQueue queue(2 * static_cast<std::size_t>(towers_.size()));
  FirstFailure first;
  const Towers::Job job = [&](Tower& tower) {
    try {
      tower.scripts.clear();
      const Scripts::Scope noting(tower.scripts);
      work_off(queue,
               {.place = tower.place,
                .replica = replicas_[tower.place],
                .device = device::torch_device(tower.device),
                .generator = tower.generator,
                .begin = [&] { replicas_.begin_shard(tower.place); },
                .end = [&] { replicas_.check_shard(tower.place); }},
               options_.method);
    } catch (...) {
      first.keep(tower);
      queue.cancel();
    }
  };
  towers_.start(job);
  const std::exception_ptr unreadable = feed(queue, next);  // what the caller's range threw
  towers_.finish();
  if (replicas_.weights_written()) torn_.mark();
  try {
    replicas_.recover();         // should a metric have written to buffers
  } catch (const DeviceLost&) {  // the next step meets it
  }
  if (unreadable) std::rethrow_exception(unreadable);
  require_success(first.get(), "evaluate");
  require_same_modes();
}

}  // namespace lockstep::strategy
