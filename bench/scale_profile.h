#pragma once

// What one device does in a step by itself, measured in virtual time on sim:0.

#include <c10/core/Event.h>
#include <lockstep/lockstep.h>
#include <lockstep/sim.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "arena/arena.h"
#include "collective/block_squares.h"
#include "device/accelerator.h"
#include "optim/slice_update.h"
#include "scale_model.h"
#include "strategy/ready_hook.h"

namespace bench {

/// The virtual seconds that `work` takes, its last operator included.
template <class Work>
double virtual_seconds(const Work& work) {
  const torch::DeviceGuard guard(torch::Device("sim:0"));
  lockstep::sim::device_now(0);
  const auto begin = std::max(lockstep::sim::host_now(), lockstep::sim::device_now(0));
  lockstep::sim::host_reaches(begin);
  work();
  return (std::max(lockstep::sim::host_now(), lockstep::sim::device_now(0)) - begin).count();
}

inline torch::Tensor sum_of(const torch::Tensor& loss) { return loss; }
inline torch::Tensor sum_of(const lockstep::Loss& loss) { return loss.sum; }

/// The layouts and buckets that an engine makes for a model.
struct Cuts {
  std::vector<lockstep::arena::Layout> layouts;
  std::vector<lockstep::arena::Bucket> buckets;

  Cuts(const torch::nn::Module& model, std::int64_t bucket_bytes)
      : layouts(lockstep::arena::layouts(lockstep::arena::tensors_of(model).trainable)),
        buckets(lockstep::arena::buckets(layouts, bucket_bytes)) {}
};

/// Forward and backward of `batch`, on sim:0 where `model` is too: DeviceTimes without the update.
/// A bucket's gradients are copied to flat memory when they are there, as Exchange does.
template <class Model, class Batch>
DeviceTimes passes(Model& model, const Cuts& cuts, const Batch& batch) {
  const torch::Device device("sim:0");
  const lockstep::Device place{lockstep::DeviceKind::sim, 0};
  const torch::DeviceGuard guard(device);
  const auto parameters = lockstep::arena::tensors_of(model).trainable;
  std::vector<torch::Tensor> flat;
  for (const auto& layout : cuts.layouts) flat.push_back(lockstep::arena::allocate(layout, device));
  struct Part {
    std::size_t bucket;
    std::int64_t begin, end;
  };
  std::vector<std::vector<Part>> parts(parameters.size());
  std::vector<std::size_t> pending(cuts.buckets.size());
  for (std::size_t bucket = 0; bucket < cuts.buckets.size(); ++bucket) {
    const auto& [arena, range] = cuts.buckets[bucket];
    for (const auto& seat : cuts.layouts[arena].seats) {
      const std::int64_t begin = std::max(seat.offset, range.begin);
      const std::int64_t end = std::min(seat.offset + seat.numel, range.end);
      if (begin >= end) continue;
      parts[seat.entry].push_back({bucket, begin, end});
      ++pending[bucket];
    }
  }
  DeviceTimes times;
  times.ready.resize(cuts.buckets.size());
  std::vector<c10::Event> events;
  for (std::size_t i = 0; i <= cuts.buckets.size(); ++i)
    events.emplace_back(device.type(), c10::EventFlag::BACKEND_DEFAULT);
  const auto flatten = [&](std::size_t bucket) {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < parameters.size(); ++i)
      for (const Part& part : parts[i]) {
        if (part.bucket != bucket) continue;
        const auto arena = cuts.buckets[bucket].arena;
        const torch::Tensor gradient = parameters[i].tensor.grad();
        std::int64_t offset = 0;
        for (const auto& seat : cuts.layouts[arena].seats)
          if (seat.entry == i) offset = seat.offset;
        const auto room = flat[arena].narrow(0, part.begin, part.end - part.begin);
        if (gradient.defined())
          room.copy_(gradient.as_strided({gradient.numel()}, {1})
                         .narrow(0, part.begin - offset, part.end - part.begin));
        else
          room.fill_(-0.0);
      }
    events[bucket].record(lockstep::device::current_stream(place));
  };
  const auto hooks = [&](bool set) {
    for (std::size_t i = 0; i < parameters.size() && set; ++i)
      lockstep::strategy::call_when_ready(parameters[i].tensor, [&, i] {
        for (const Part& part : parts[i])
          if (--pending[part.bucket] == 0) flatten(part.bucket);
      });
    if (!set) lockstep::strategy::call_no_more(parameters);
  };
  for (const auto& parameter : parameters) torch::Tensor(parameter.tensor).mutable_grad().reset();
  hooks(true);
  times.computed = virtual_seconds([&] {
    events.back().record(lockstep::device::current_stream(place));
    const torch::Tensor sum = sum_of(model.loss(batch));
    sum.backward();
    for (std::size_t bucket = 0; bucket < pending.size(); ++bucket)
      if (pending[bucket] > 0) flatten(bucket);  // parameters without a gradient
    sum.detach().cpu();
  });
  hooks(false);
  for (std::size_t bucket = 0; bucket < cuts.buckets.size(); ++bucket)
    times.ready[bucket] = 1e-3 * events.back().elapsedTime(events[bucket]);
  return times;
}

/// Division, norm and update of what the first of `towers` owns.
inline void add_update(DeviceTimes& times, const Cuts& cuts, int towers,
                       const lockstep::Method& method) {
  const torch::NoGradGuard no_grad;
  const torch::Device device("sim:0");
  std::vector<torch::Tensor> sums, gradients;
  std::vector<lockstep::optim::SliceUpdate> updates;
  for (const auto& bucket : cuts.buckets) {
    const auto& layout = cuts.layouts[bucket.arena];
    const auto range = lockstep::arena::slice_of(bucket, 0, towers);
    for (auto* list : {&sums, &gradients})
      list->push_back(lockstep::arena::allocate(range.size(), layout.dtype, device));
    updates.emplace_back(layout, range,
                         lockstep::arena::allocate(range.size(), layout.dtype, device),
                         gradients.back(), method);
  }
  for (auto& update : updates) update.apply(method, {});  // what is made once
  times.reduced = virtual_seconds([&] {
    std::vector<torch::Tensor> squares;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      at::div_out(gradients[i], sums[i], torch::scalar_tensor(1.0, torch::kFloat64));
      squares.push_back(lockstep::collective::block_squares(gradients[i]));
    }
    torch::cat(squares).cpu();
  });
  times.updated = virtual_seconds([&] {
    for (auto& update : updates) update.apply(method, {.updates = 1});
  });
}

}  // namespace bench
