#pragma once

// A tower at work on its shards.

#include <lockstep/error.h>
#include <lockstep/method.h>

#include <string>

#include "device/accelerator.h"
#include "device/autocast.h"
#include "device/device_scope.h"
#include "device/random_stream.h"
#include "strategy/tower.h"

namespace lockstep::strategy {

/// Calls `action` with tower.shard at each of its shards.
template <class Action>
void for_each_shard(Tower& tower, const Action& action) {
  for (tower.shard = tower.shards.first; tower.shard < tower.shards.end; ++tower.shard) {
    if (tower.collective->aborted()) throw collective::Aborted();
    action();
  }
  tower.shard = -1;
}

/// A recurrent layer sees that its state has a wrong size, and not that it was cut along its
/// layers.
[[noreturn]] inline void rethrow(const c10::Error& error) {
  const std::string said = error.what_without_backtrace();
  if (said.find("Expected hidden") == std::string::npos) throw;
  throw ConfigError(
      said +
      ": if the state came with the batch, it was cut along its layers, which are its "
      "first dimension; pass along(1, state), see lockstep/batch.h.");
}

/// Calls a function of the user's, with the random numbers of `stream`.
template <class Forward>
auto in_scope(Tower& tower, const Method& method, int stream, const Forward& forward) {
  const torch::Device device = device::torch_device(tower.device);
  tower.generator.set_current_seed(device::stream_seed(method.seed, tower.pass.step, stream));
  const device::RandomScope random(tower.generator);
  const device::DeviceScope scope(device);
  const device::AutocastScope autocast(device.type(), method.precision);
  try {
    return forward();
  } catch (const c10::Error& error) {
    rethrow(error);
  }
}

/// What backward starts from.
inline torch::Tensor scaled(const torch::Tensor& sum, const Pass& pass) {
  return pass.loss_scale == 1 ? sum : sum * pass.loss_scale;
}

}  // namespace lockstep::strategy
