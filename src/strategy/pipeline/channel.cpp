#include "strategy/pipeline/channel.h"

#include <c10/core/StreamGuard.h>

#include <unordered_map>

#include "collective/meeting.h"
#include "device/accelerator.h"

namespace lockstep::strategy {
namespace {

/// A copy with the same strides, at the same place of a cache line: kernels may depend on both.
torch::Tensor twin_on(const torch::Device& device, const torch::Tensor& source) {
  if (source.layout() != torch::kStrided || source.numel() == 0) return source.to(device);
  std::int64_t span = 1;
  for (std::int64_t i = 0; i < source.dim(); ++i) span += (source.size(i) - 1) * source.stride(i);
  const auto line = static_cast<std::int64_t>(128 / source.element_size());
  const std::int64_t lead = source.storage_offset() % line;
  const torch::Tensor flat = source.as_strided({lead + span}, {1}, source.storage_offset() - lead);
  torch::Tensor room = torch::empty({lead + span}, source.options().device(device));
  room.copy_(flat, /*non_blocking=*/true);
  return room.as_strided(source.sizes(), source.strides(), lead);
}

}  // namespace

Channel::Channel(const Device& from, const Device& to) : from_(from), to_(to) {
  if (!device::is_accelerator(from.kind)) return;
  out_ = device::new_stream(from);
  in_ = device::new_stream(to);
}

void Channel::put(int shard, Handed handed) {
  handed.at = device::host_now(from_.kind);
  if (out_) {
    const c10::Stream compute = device::current_stream(from_);
    handed.ready = std::make_unique<c10::Event>(compute.device_type());
    handed.ready->record(compute);
  }
  const std::scoped_lock lock(mutex_);
  shards_.insert_or_assign(shard, std::move(handed));
  changed_.notify_all();
}

Handed Channel::take(int shard) {
  Handed handed;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return aborted_ || shards_.contains(shard); });
    if (aborted_) throw collective::Aborted();
    handed = std::move(shards_.extract(shard).mapped());
  }
  device::host_reaches(to_.kind, handed.at);
  if (out_) bring_over(handed);
  return handed;
}

void Channel::bring_over(Handed& handed) {
  const torch::NoGradGuard no_grad;
  const torch::Device here = device::torch_device(to_);
  const c10::Stream compute = device::current_stream(to_);
  handed.ready->block(*out_);
  // LibTorch copies on the current streams of both devices.
  const c10::MultiStreamGuard guard({*out_, *in_});
  device::order(*out_, *in_);
  std::unordered_map<const void*, torch::Tensor> known;  // what is one tensor stays one
  std::vector<torch::Tensor> sources;  // which must not go before the copies are ordered
  const auto bring = [&](torch::Tensor& tensor) {
    if (!tensor.defined() || tensor.is_cpu()) return;  // what is on the CPU stays there
    torch::Tensor& copy = known[tensor.unsafeGetTensorImpl()];
    if (!copy.defined()) {
      copy = twin_on(here, tensor);
      for (const c10::Stream& stream : {*out_, *in_}) tensor.record_stream(stream);
      sources.push_back(tensor);
      copy.record_stream(compute);
    }
    tensor = copy;
  };
  for (torch::Tensor& tensor : handed.tensors) bring(tensor);
  for (torch::Tensor& tensor : handed.buffers) bring(tensor);
  for (auto& [parameter, tensor] : handed.tied) bring(tensor);
  device::order(*in_, *out_);
  device::order(*in_, compute);
}

void Channel::abort() noexcept {
  const std::scoped_lock lock(mutex_);
  aborted_ = true;
  changed_.notify_all();
}

void Channel::reset() {
  const std::scoped_lock lock(mutex_);
  aborted_ = false;
  shards_.clear();
}

}  // namespace lockstep::strategy
