#pragma once

// How a batch gets to a device: everything that `part` knows (see batch.h), tensor by tensor. A
// batch type of your own that does not offer its tensors() offers
//
//   Batch to(torch::Device device) const;  // optional: needed on devices other than the CPU

#include <lockstep/batch.h>
#include <lockstep/error.h>

#include <string>
#include <type_traits>

namespace lockstep {

template <class Batch>
concept OwnTo = requires(const Batch& batch, torch::Device device) {
  { batch.to(device) } -> std::convertible_to<Batch>;
};

namespace detail {

/// Calls `action` with every leaf of a batch: a torch::Tensor& or a reference to a type of one's
/// own.
template <class Action>
struct Leaves {
  Action action;

  void visit(torch::Tensor& leaf) { action(leaf); }

  template <OwnBatch Batch>
  void visit(Batch& leaf) {
    action(leaf);
  }
  template <OfTensors Batch>
  void visit(Batch& batch) {
    std::apply([this](auto&... parts) { (visit(parts), ...); }, batch.tensors());
  }
  template <class Data, class Target>
  void visit(torch::data::Example<Data, Target>& batch) {
    visit(batch.data);
    visit(batch.target);
  }
  template <class Data>
  void visit(DataOnly<Data>& batch) {
    visit(batch.data);
  }
  template <class First, class Second>
  void visit(std::pair<First, Second>& batch) {
    visit(batch.first);
    visit(batch.second);
  }
  template <class... Parts>
  void visit(std::tuple<Parts...>& batch) {
    std::apply([this](Parts&... parts) { (visit(parts), ...); }, batch);
  }
  template <class Item, std::size_t size>
  void visit(std::array<Item, size>& batch) {
    for (Item& item : batch) visit(item);
  }
  template <class Item>
  void visit(std::vector<Item>& batch) {
    for (Item& item : batch) visit(item);
  }
};

}  // namespace detail

/// Calls action(torch::Tensor&) for each tensor of `batch`, in place; does not look into types of
/// one's own without tensors().
template <class Batch, class Action>
void for_each_tensor(Batch& batch, const Action& action) {
  const auto leaf = [&]<class Leaf>(Leaf& each) {
    if constexpr (std::is_same_v<Leaf, torch::Tensor>) action(each);
  };
  detail::Leaves<decltype(leaf)>{leaf}.visit(batch);
}

/// The batch on `device`: tensors that are there already stay what they are. From pinned memory the
/// copy is only enqueued on the current stream, and the source must live until it is done. Throws
/// ConfigError for a type of one's own that cannot move.
template <class Batch>
Batch to(Batch batch, torch::Device device) {
  const auto leaf = [&]<class Leaf>(Leaf& each) {
    if constexpr (std::is_same_v<Leaf, torch::Tensor>) {
      if (each.defined())
        each = each.to(device, /*non_blocking=*/each.is_cpu() && each.is_pinned());
    } else if constexpr (OwnTo<Leaf>) {
      each = each.to(device);
    } else if (!device.is_cpu()) {
      throw ConfigError("this batch type cannot go to " + device.str() +
                        ": give it `Batch to(torch::Device) const`");
    }
  };
  detail::Leaves<decltype(leaf)>{leaf}.visit(batch);
  return batch;
}

/// The batch in memory that the accelerator of this machine can copy from while the host goes on;
/// tensors of a device, and types of one's own, stay what they are.
template <class Batch>
Batch pinned(Batch batch) {
  for_each_tensor(batch, [](torch::Tensor& each) {
    if (each.defined() && each.is_cpu()) each = each.pin_memory();
  });
  return batch;
}

}  // namespace lockstep
