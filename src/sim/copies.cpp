#include "sim/allocator.h"
#include "sim/kernels.h"
#include "sim/views.h"

#include <ATen/ATen.h>

namespace lockstep::sim {
namespace {

const std::string& name_of_copy() {
  static const auto* name = new std::string("aten::copy_");
  return *name;
}

const std::string& name_of_item() {
  static const auto* name = new std::string("aten::item");
  return *name;
}

bool on_sim(const at::Tensor& tensor) { return tensor.device().type() == kDeviceType; }

/// Copies with the CPU's kernel, whichever side is on a device.
void copy_bytes(const Launch& launch, const at::Tensor& from, const at::Tensor& to) {
  Views from_views(0), to_views(0);
  const at::Tensor source = on_sim(from) ? from_views.of(from) : from;
  at::Tensor target = on_sim(to) ? to_views.of(to) : to;
  const c10::impl::ExcludeDispatchKeyGuard exclude(
      c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
      c10::DispatchKeySet(c10::DispatchKey::TESTING_ONLY_GenericMode) |
      c10::DispatchKeySet(c10::DispatchKey::TESTING_ONLY_GenericWrapper));
  const KernelScope scope(launch);
  target.copy_(source);
}

std::vector<Use> uses_of(const at::Tensor& from, const at::Tensor& to) {
  std::vector<Use> uses;
  for (const Use& use : {use_of(from, false), use_of(to, true)})
    if (use.memory) uses.push_back(use);
  return uses;
}

Cost cost_of_copy(const at::Tensor& from, const at::Tensor& to) {
  const auto bytes = static_cast<double>(to.nbytes());
  if (from.device() == to.device()) return {.bytes = static_cast<double>(from.nbytes()) + bytes};
  return {.link_bytes = bytes};
}

void copy_between_devices(const at::Tensor& from, const at::Tensor& to) {
  const int receiver = to.device().index(), sender = from.device().index();
  auto& machine = Machine::instance();
  const Launch launch =
      machine.begin(receiver, name_of_copy(), uses_of(from, to), sender == receiver ? -1 : sender);
  copy_bytes(launch, from, to);
  machine.end(launch, cost_of_copy(from, to));
}

/// As on CUDA, a copy that need not block returns at once from pinned memory, and from other memory
/// when its bytes have been read; neither orders anything.
void copy_from_host(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  auto& machine = Machine::instance();
  const Launch launch = machine.begin(to.device().index(), name_of_copy(), uses_of(from, to));
  const Use source = use_of(from, false);
  if (source.memory) machine.deliver_now(source.memory, source.begin, source.end);
  copy_bytes(launch, from, to);
  const double read = machine.end(launch, cost_of_copy(from, to), /*wait=*/!non_blocking);
  if (non_blocking && source.memory)
    machine.watch_source(launch, source.memory, source.begin, source.end);
  else
    machine.host_reaches(read);
}

void copy_to_host(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  auto& machine = Machine::instance();
  const Launch launch = machine.begin(from.device().index(), name_of_copy(), uses_of(from, to));
  copy_bytes(launch, from, to);
  const Use target = use_of(to, true);
  const bool async = non_blocking && target.memory && to.is_non_overlapping_and_dense();
  machine.end(launch, cost_of_copy(from, to), !async);
  if (async) machine.deliver_later(launch, target.memory, target.begin, target.end);
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  if (dst.numel() == 0) return dst;
  if (on_sim(self) && on_sim(dst))
    copy_between_devices(self, dst);
  else if (on_sim(dst))
    copy_from_host(self, dst, non_blocking);
  else
    copy_to_host(self, dst, non_blocking);
  return dst;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  dst.resize_(self.sizes());
  return copy_from(self, dst, false);
}

at::Scalar local_scalar(const at::Tensor& self) {
  auto& machine = Machine::instance();
  std::vector<Use> uses{use_of(self, false)};
  if (!uses[0].memory) uses.clear();
  const Launch launch = machine.begin(self.device().index(), name_of_item(), uses);
  machine.end(launch, {.link_bytes = static_cast<double>(self.itemsize())}, true);
  Views views(self.device().index());
  return at::_local_scalar_dense(views.of(self));
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  if (Allocation* memory = allocation_of(self.storage().data_ptr()))
    Machine::instance().record_stream(memory, stream);
}

}  // namespace

void register_copies(torch::Library& aten) {
  aten.impl("_copy_from", TORCH_FN(copy_from));
  aten.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  aten.impl("_local_scalar_dense", TORCH_FN(local_scalar));
  aten.impl("record_stream", TORCH_FN(record_stream));
}

}  // namespace lockstep::sim
