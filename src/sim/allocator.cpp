#include "sim/allocator.h"

#include <c10/core/CPUAllocator.h>

#include <cstring>

namespace lockstep::sim {
namespace {

/// The operator whose kernel this thread runs; null outside.
thread_local const Launch* running = nullptr;

/// The allocator of all CPU memory that is not ours.
c10::Allocator* all_else = nullptr;

void release_block(void* data) { Machine::instance().release(allocation_at(data)); }

void release_pinned_block(void* data) { Machine::instance().release_pinned(allocation_at(data)); }

/// For oneDNN, which allocates and frees without a DataPtr.
void release_raw(void* data) {
  if (Machine::instance().is_live(data))
    release_block(data);
  else
    all_else->raw_deleter()(data);
}

struct DeviceAllocator final : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    const int device = Machine::instance().current_device();
    return allocate_on(device, bytes,
                       c10::Device(kDeviceType, static_cast<c10::DeviceIndex>(device)));
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    std::memcpy(to, from, count);
  }
};

struct PinnedAllocator final : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    Allocation* block = Machine::instance().allocate_pinned(bytes);
    return {block->data, block->data, &release_pinned_block, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    std::memcpy(to, from, count);
  }
};

/// Whether a kernel allocates for a number that it was given, in another type: an accelerator's
/// kernel gets numbers as arguments, and no memory for them.
bool is_for_a_number(std::size_t bytes) {
  constexpr std::size_t kWidest = 16;  // a complex number
  return running->in_place && bytes <= kWidest;
}

struct CpuAllocator final : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    return running && !is_for_a_number(bytes)
               ? allocate_on(running->device, bytes, c10::Device(c10::kCPU))
               : all_else->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return all_else->raw_deleter() ? &release_raw : nullptr;
  }
  bool is_simple_data_ptr(const c10::DataPtr& data) const override {
    return all_else->is_simple_data_ptr(data);
  }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    all_else->copy_data(to, from, count);
  }
};

}  // namespace

KernelScope::KernelScope(const Launch& launch) : outer_(running) { running = &launch; }
KernelScope::~KernelScope() { running = outer_; }

c10::DataPtr allocate_on(int device, std::size_t bytes, c10::Device as) {
  if (bytes == 0) return {nullptr, as};
  const Launch* inside = running && running->op ? running : nullptr;  // a view has no launch
  Allocation* block = Machine::instance().allocate(device, bytes, inside);
  return {block->data, block->data, &release_block, as};
}

Allocation* allocation_of(const c10::DataPtr& data) {
  if (data.get_deleter() == &release_block || data.get_deleter() == &release_pinned_block)
    return allocation_at(data.get_context());
  return nullptr;
}

Use use_of(const at::Tensor& tensor, bool write) {
  if (tensor.numel() == 0) return {};
  const c10::Storage& storage = tensor.storage();
  Allocation* memory = allocation_of(storage.data_ptr());
  if (!memory && storage.device_type() == kDeviceType)  // a part of a block, under its own name
    memory = Machine::instance().find(storage.data());
  if (!memory) return {};
  const auto offset =
      static_cast<std::size_t>(static_cast<const char*>(storage.data()) - memory->data);
  std::int64_t last = tensor.storage_offset();
  for (std::int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  const auto item = tensor.itemsize();
  return {.memory = memory,
          .begin = offset + static_cast<std::size_t>(tensor.storage_offset()) * item,
          .end = offset + (static_cast<std::size_t>(last) + 1) * item,
          .write = write,
          .tensor = &tensor};
}

c10::Allocator* device_allocator() {
  static auto* allocator = new DeviceAllocator;
  return allocator;
}

c10::Allocator* pinned_allocator() {
  static auto* allocator = new PinnedAllocator;
  return allocator;
}

void install_cpu_allocator() {
  all_else = c10::GetCPUAllocator();
  c10::SetCPUAllocator(new CpuAllocator, /*priority=*/100);
}

}  // namespace lockstep::sim
