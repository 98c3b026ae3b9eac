#pragma once

// How a batch gets to a device: tensor by tensor, for every type that `batch::part` can cut
// (batch.h). A batch type of your own that does not offer tensors() offers
//
//   Batch to(torch::Device device) const;  // optional: needed on devices other than the CPU

#include <lockstep/batch.h>
#include <lockstep/error.h>

#include <cstdint>
#include <string>
#include <type_traits>

namespace lockstep {

namespace detail {

/// Where LibTorch's memory begins, and what the CPU's kernels compute with depends on.
inline constexpr std::uintptr_t kAlignment = 64;

/// A tensor with gaps between its elements, or with elements that share memory, as a contiguous
/// copy; others as they are. Tensor::to does the same when it copies to a device.
inline torch::Tensor dense(const torch::Tensor& tensor) {
  const bool gaps = tensor.layout() == torch::kStrided && !tensor.is_non_overlapping_and_dense();
  return gaps ? tensor.contiguous() : tensor;
}

}  // namespace detail

namespace batch {

/// Calls action(torch::Tensor&) for each tensor of `batch`, in place; not for those inside a type
/// of your own without tensors().
template <class Batch, class Action>
void for_each_tensor(Batch& batch, const Action& action) {
  detail::for_each_tensor(batch, [&](auto& tensor, const detail::Part&) { action(tensor); });
}

/// The batch on `device`; a tensor that is there already is not copied. A copy from pinned memory
/// is only enqueued on the current stream, and its source must live until it is done. Throws
/// ConfigError for a type of your own that cannot move.
template <class Batch>
Batch to(Batch batch, torch::Device device) {
  detail::for_each_leaf(batch, [&]<class Leaf>(Leaf& leaf, const detail::Part&) {
    if constexpr (std::is_same_v<Leaf, torch::Tensor>) {
      if (leaf.defined())
        leaf = leaf.to(device, /*non_blocking=*/leaf.is_cpu() && leaf.is_pinned());
    } else if constexpr (detail::kIsList<Leaf>) {
      for (auto& item : detail::items_of(leaf)) item = to(std::move(item), device);
    } else if constexpr (OwnTo<Leaf>) {
      leaf = leaf.to(device);
    } else if (!device.is_cpu()) {
      throw ConfigError("this batch type cannot be copied to " + device.str() +
                        "; offer tensors() or `Batch to(torch::Device) const`.");
    }
  });
  return batch;
}

/// The batch in pinned memory, from which an accelerator copies while the host goes on. Tensors on
/// a device, and types of your own without tensors(), stay as they are.
template <class Batch>
Batch pinned(Batch batch) {
  for_each_tensor(batch, [](torch::Tensor& each) {
    if (each.defined() && each.is_cpu()) each = detail::dense(each).pin_memory();
  });
  return batch;
}

/// The batch with each tensor of the CPU as a copy to a device would have it: dense, and at an
/// address that is a multiple of 64 bytes. Those that are not are copied. See "Note: alignment" in
/// docs/notes.md.
template <class Batch>
Batch aligned(Batch batch) {
  for_each_tensor(batch, [](torch::Tensor& each) {
    if (!each.defined() || !each.is_cpu() || each.layout() != torch::kStrided) return;
    each = detail::dense(each);
    if (reinterpret_cast<std::uintptr_t>(each.const_data_ptr()) % detail::kAlignment != 0)
      each = each.clone();
  });
  return batch;
}

}  // namespace batch

}  // namespace lockstep
