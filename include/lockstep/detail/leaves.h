#pragma once

// A walk through the parts of a batch. The contract is in batch.h.

#include <lockstep/detail/kinds.h>

#include <string_view>

namespace lockstep::detail {

/// How a part of a batch is cut.
enum class Cut { rows, along, whole };

/// Where a part is in its batch, and how it is cut. Lives on the stack of the walk.
struct Part {
  const Part* outer = nullptr;
  std::string_view before = {}, text = {};  ///< its name: before, text, index, after
  std::int64_t index = -1;                  ///< none below 0
  std::string_view after = {};
  Cut cut = Cut::rows;
  int dim = 0;             ///< along which it is cut
  bool of_vector = false;  ///< directly or not

  std::string path() const;  ///< ".first", "[2].data", "tensors()[1]"; empty: the batch itself

  Part named(std::string_view name) const { return next({.outer = this, .before = name}); }
  Part at(std::string_view name, std::size_t number, std::string_view end) const {
    return next(
        {.outer = this, .before = name, .index = static_cast<std::int64_t>(number), .after = end});
  }
  template <class Key>
  Part of_key(const Key& key, std::size_t number) const {
    if constexpr (std::convertible_to<const Key&, std::string_view>)
      return next({.outer = this, .before = "[\"", .text = key, .after = "\"]"});
    else if constexpr (std::is_integral_v<Key>)
      return at("[", static_cast<std::size_t>(key), "]");
    return at("[key ", number, "]");
  }

 private:
  Part next(Part part) const {
    part.cut = cut;
    part.dim = dim;
    part.of_vector = of_vector;
    return part;
  }
};

/// Of a list, const or not.
template <class Leaf>
auto& items_of(Leaf& list) {
  if constexpr (requires { list.items; })
    return list.items;
  else
    return list;
}

/// Calls action(leaf, part) with every leaf of a batch, in order: a tensor, a list, or a type that
/// cuts or moves itself.
template <class Action>
struct Leaves {
  const Action& action;

  template <class Leaf>
  void visit(Leaf& leaf, const Part& part) const {
    if constexpr (std::is_same_v<Leaf, torch::Tensor> || OwnBatch<Leaf>)
      action(leaf, part);
    else if constexpr (OfTensors<Leaf>)
      visit_each(leaf.tensors(), part, "tensors()[", "]");
    else if constexpr (OwnTo<Leaf>)
      action(leaf, part);
  }
  template <class T>
  void visit(Whole<T>& batch, const Part& part) const {
    Part inner = part;
    inner.cut = Cut::whole;
    visit(batch.value, inner);
  }
  template <class T>
  void visit(Along<T>& batch, const Part& part) const {
    Part inner = part;
    if (inner.cut != Cut::whole) inner.cut = Cut::along;
    inner.dim = batch.dim;
    visit(batch.value, inner);
  }
  template <class Item>
  void visit(List<Item>& batch, const Part& part) const {
    action(batch, part);
  }
  template <class Data, class Target>
  void visit(torch::data::Example<Data, Target>& batch, const Part& part) const {
    visit(batch.data, part.named("data"));
    visit(batch.target, part.named("target"));
  }
  template <class Data>
  void visit(DataOnly<Data>& batch, const Part& part) const {
    visit(batch.data, part.named("data"));
  }
  template <class First, class Second>
  void visit(std::pair<First, Second>& batch, const Part& part) const {
    visit(batch.first, part.named(".first"));
    visit(batch.second, part.named(".second"));
  }
  template <class... Parts>
  void visit(std::tuple<Parts...>& batch, const Part& part) const {
    visit_each(batch, part, "get<", ">");
  }
  template <class T>
  void visit(std::optional<T>& batch, const Part& part) const {
    if (batch) visit(*batch, part);
  }
  template <class Key, class T, class Less>
  void visit(std::map<Key, T, Less>& batch, const Part& part) const {
    visit_map(batch, part);
  }
  template <class Key, class T, class Hash, class Equal>
  void visit(std::unordered_map<Key, T, Hash, Equal>& batch, const Part& part) const {
    visit_map(batch, part);
  }
  template <class Key, class T>
  void visit(torch::OrderedDict<Key, T>& batch, const Part& part) const {
    std::size_t number = 0;
    for (auto& item : batch) visit(item.value(), part.of_key(item.key(), number++));
  }
  template <class Item, std::size_t size>
  void visit(std::array<Item, size>& batch, const Part& part) const {
    visit_items(batch, part);
  }
  template <class Item>
  void visit(std::vector<Item>& batch, const Part& part) const {
    if constexpr (kIsList<std::vector<Item>>)
      action(batch, part);
    else if constexpr (!std::is_arithmetic_v<Item>)
      visit_items(batch, part);
  }

  /// Each item of a vector or list.
  template <class Items>
  void visit_items(Items& items, const Part& part) const {
    Part inner = part;
    inner.of_vector = true;
    for (std::size_t i = 0; i < items.size(); ++i) visit(items[i], inner.at("[", i, "]"));
  }

 private:
  template <class Parts>
  void visit_each(Parts&& parts, const Part& part, std::string_view before,
                  std::string_view after) const {
    std::size_t number = 0;
    std::apply([&](auto&... each) { (visit(each, part.at(before, number++, after)), ...); }, parts);
  }
  template <class Map>
  void visit_map(Map& batch, const Part& part) const {
    std::size_t number = 0;
    for (auto& [key, value] : batch) visit(value, part.of_key(key, number++));
  }
};

template <class Batch, class Action>
void for_each_leaf(Batch& batch, const Action& action) {
  Leaves<Action>{action}.visit(batch, Part{});
}

template <class Batch, class Action>
void for_each_leaf(const Batch& batch, const Action& action) {
  const auto look = [&](const auto& leaf, const Part& part) { action(leaf, part); };
  // tensors() is not const, but only names members; nothing is written.
  for_each_leaf(const_cast<Batch&>(batch), look);
}

/// Calls action(tensor, part) with every tensor of a batch, also with those in lists.
template <class Action>
struct Tensors {
  const Action& action;

  void operator()(torch::Tensor& leaf, const Part& part) const { action(leaf, part); }
  template <class Leaf>
  void operator()(Leaf& leaf, const Part& part) const {
    if constexpr (kIsList<Leaf>) Leaves<Tensors>{*this}.visit_items(items_of(leaf), part);
  }
};

template <class Batch, class Action>
void for_each_tensor(Batch& batch, const Action& action) {
  for_each_leaf(batch, Tensors<Action>{action});
}

template <class Batch, class Action>
void for_each_tensor(const Batch& batch, const Action& action) {
  const auto look = [&](const torch::Tensor& tensor, const Part& part) { action(tensor, part); };
  for_each_tensor(const_cast<Batch&>(batch), look);  // as above
}

/// Rows of a leaf; kNoRows: the same in every shard, or undefined. kUnknownRows: a type of the
/// caller's without rows(). Throws ConfigError for a dimension that a tensor does not have.
inline constexpr std::int64_t kUnknownRows = -1, kNoRows = -2;
std::int64_t rows_of(const torch::Tensor& leaf, const Part& part);
template <class Leaf>
std::int64_t rows_of(const Leaf& leaf, const Part& part) {
  if (part.cut == Cut::whole) return kNoRows;
  if constexpr (kIsList<Leaf>)
    return static_cast<std::int64_t>(items_of(leaf).size());
  else if constexpr (OwnRows<Leaf>)
    return leaf.rows();
  return kUnknownRows;
}

/// Compares the rows of a batch's parts.
class SameRows {
 public:
  /// Throws ConfigError unless they are those of the parts before. `tensor` is null for a list or a
  /// type of the caller's; the batch must live on.
  void add(std::int64_t rows, const torch::Tensor* tensor, const Part& part);
  /// Throws ConfigError when nothing had rows.
  void finish() const;

 private:
  std::int64_t rows_ = kNoRows;
  std::string first_;  // the path of the first part with rows
  const torch::Tensor* tensor_ = nullptr;
};

/// Throws ConfigError, naming the parts, unless all parts of a batch have the same number of rows,
/// and at least one has rows. Types of the caller's without rows() are not looked at.
template <class Batch>
void require_same_rows(const Batch& batch) {
  SameRows same;
  for_each_leaf(batch, [&]<class Leaf>(const Leaf& leaf, const Part& part) {
    const torch::Tensor* tensor = nullptr;
    if constexpr (std::is_same_v<Leaf, torch::Tensor>) tensor = &leaf;
    same.add(rows_of(leaf, part), tensor, part);
  });
  same.finish();
}

}  // namespace lockstep::detail
