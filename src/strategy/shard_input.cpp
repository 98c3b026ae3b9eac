#include "strategy/shard_input.h"

#include <c10/core/StreamGuard.h>

#include <memory>

#include "device/accelerator.h"

namespace lockstep::strategy {

void load_shards(Tower& tower, detail::Shards& shards, const c10::Stream* input_stream) {
  const torch::Device device = device::torch_device(tower.device);
  const c10::Stream compute = device::current_stream(tower.device);
  const c10::StreamGuard beside(input_stream ? *input_stream : compute);
  for (int number = tower.shards.first; number < tower.shards.end; ++number) {
    detail::Shards::Shard& shard = shards.at(number);
    if (shard.device == device) continue;
    tower.shard = number;
    shard.device.reset();
    shard.rows = shards.load(number, device);
    if (input_stream) {
      shards.record(number, compute);
      shard.arrived = std::make_unique<c10::Event>(compute.device_type());
      shard.arrived->record(beside.current_stream());
    }
    shard.device = device;
  }
  tower.shard = -1;
}

void count_shard(Tower& tower, std::int64_t rows) {
  ++tower.computed;
  if (rows < 0)
    tower.rows.reset();
  else if (tower.rows)
    *tower.rows += rows;
}

}  // namespace lockstep::strategy
