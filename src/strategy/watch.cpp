#include "strategy/watch.h"

#include <lockstep/error.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

namespace lockstep::strategy {
namespace {

/// Calls f(entry) for each parameter, then, if asked to, for each buffer.
template <class F>
void for_each(const arena::Tensors& tensors, bool buffers, const F& f) {
  for (const arena::Entry& entry : tensors.trainable) f(entry);
  for (const arena::Entry& entry : tensors.frozen) f(entry);
  if (!buffers) return;
  for (const arena::Entry& entry : tensors.buffers) f(entry);
}

/// A registered tensor and the bytes that it spans.
struct Extent {
  const arena::Entry* entry;
  const std::byte *begin, *end;
  bool frozen;
};

Extent extent_of(const arena::Entry& entry, bool frozen) {
  const torch::Tensor& tensor = entry.tensor;
  std::int64_t last = 0;
  for (std::int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  const auto* begin = static_cast<const std::byte*>(tensor.const_data_ptr());
  return {&entry, begin, begin + (last + 1) * tensor.element_size(), frozen};
}

/// A number that changes, all but surely, when a byte of the tensor does.
std::uint64_t sum_of_bytes(const torch::Tensor& tensor) {
  if (!tensor.is_cpu() || !tensor.is_non_overlapping_and_dense())
    return static_cast<std::uint64_t>(
        tensor.detach().reshape({-1}).view(torch::kUInt8).sum(torch::kInt64).item<std::int64_t>());
  const auto* bytes = static_cast<const std::byte*>(tensor.const_data_ptr());
  std::uint64_t sum = 0, word = 0;
  std::size_t at = 0;
  for (; at + sizeof word <= tensor.nbytes(); at += sizeof word) {
    std::memcpy(&word, bytes + at, sizeof word);
    sum += word;
  }
  for (; at < tensor.nbytes(); ++at) sum += static_cast<std::uint64_t>(bytes[at]);
  return sum;
}

void require_disjoint(std::vector<Extent> extents) {
  std::ranges::sort(extents, {}, &Extent::begin);
  for (std::size_t i = 1; i < extents.size(); ++i) {
    const Extent &a = extents[i - 1], &b = extents[i];
    if (b.begin < a.end && !(a.frozen && b.frozen))
      throw ConfigError("'" + a.entry->name + "' and '" + b.entry->name +
                        "' share memory but are two tensors; register one tensor under both names, "
                        "or give each its own memory with clone().");
  }
}

}  // namespace

void require_apart(const std::vector<std::shared_ptr<torch::nn::Module>>& replicas) {
  constexpr const char* kWhatToDo =
      "; make it in the model's constructor, or in the function that you give to Mirrored::from, "
      "anew each time. Mirrored copies a module that you pass to it only if it has a clone().";
  std::set<const void*> modules, tensors;
  for (const auto& replica : replicas) {
    std::set<const void*> own;
    for (const auto& module : replica->modules()) own.insert(module.get());
    const arena::Tensors found = arena::tensors_of(*replica);
    std::set<const void*> own_tensors;
    for_each(found, true, [&](const arena::Entry& entry) {
      if (tensors.contains(entry.tensor.unsafeGetTensorImpl()))
        throw ConfigError("'" + entry.name + "' is one tensor in two towers" + kWhatToDo);
      own_tensors.insert(entry.tensor.unsafeGetTensorImpl());
    });
    for (const auto& item : replica->named_modules("model"))
      if (modules.contains(item.value().get()))
        throw ConfigError("the module '" + item.key() + "' is one in two towers" + kWhatToDo);
    modules.merge(own);
    tensors.merge(own_tensors);
  }
}

void require_own_memory(const arena::Tensors& tensors) {
  struct Holders {
    const arena::Entry* first = nullptr;
    std::size_t uses = 0;
    std::set<const void*> known = {};  // tensors: registered ones, and the bases of such views
  };
  std::map<const void*, Holders> storages;
  std::vector<Extent> extents;
  const auto note = [&](const arena::Entry& entry, bool frozen) {
    const torch::Tensor& tensor = entry.tensor;
    if (!tensor.has_storage() || tensor.numel() == 0) return;
    Holders& holders = storages[tensor.storage().unsafeGetStorageImpl()];
    if (!holders.first) holders.first = &entry;
    holders.uses = tensor.storage().use_count();
    holders.known.insert(tensor.unsafeGetTensorImpl());
    if (tensor.is_view()) holders.known.insert(tensor._base().unsafeGetTensorImpl());
    extents.push_back(extent_of(entry, frozen));
  };
  for (const arena::Entry& entry : tensors.trainable) note(entry, false);
  for (const arena::Entry& entry : tensors.frozen) note(entry, true);
  for (const arena::Entry& entry : tensors.buffers) note(entry, false);
  require_disjoint(std::move(extents));
  for (const auto& [storage, holders] : storages)
    if (holders.uses > holders.known.size())
      throw ConfigError("'" + holders.first->name +
                        "' shares its memory with a tensor that is not registered, such as a view "
                        "that is kept as a member; make the view in forward, or clone() it.");
}

std::vector<std::uint64_t> Watch::sums_of(const arena::Tensors& tensors) {
  const torch::NoGradGuard no_grad;
  std::vector<std::uint64_t> sums;
  for_each(tensors, false,
           [&](const arena::Entry& entry) { sums.push_back(sum_of_bytes(entry.tensor)); });
  return sums;
}

void Watch::end_audit(const arena::Tensors& tensors) {
  const std::vector<std::uint64_t> now = sums_of(tensors);
  auto [before, after] = std::ranges::mismatch(sums_, now);
  if (after == now.end()) return;
  const auto at = static_cast<std::size_t>(after - now.begin());
  const bool frozen = at >= tensors.trainable.size();
  audited_ =
      frozen ? tensors.frozen[at - tensors.trainable.size()].name : tensors.trainable[at].name;
}

void Watch::begin_step(const arena::Tensors& tensors) {
  audited_.clear();
  versions_.clear();
  for_each(tensors, false, [this](const arena::Entry& entry) {
    versions_.push_back(static_cast<std::uint32_t>(entry.tensor._version()));
  });
}

void Watch::begin_shard(const arena::Tensors& tensors) {
  std::size_t i = 0;
  for_each(tensors, true, [&](const arena::Entry& entry) {
    const auto handles = static_cast<std::size_t>(entry.tensor.use_count());
    if (i == handles_.size()) handles_.push_back(handles);
    handles_[i] = std::min(handles_[i], handles);
    ++i;
  });
}

std::string Watch::written(const arena::Tensors& tensors) const {
  std::string name = audited_;
  auto version = versions_.begin();
  for_each(tensors, false, [&](const arena::Entry& entry) {
    const bool same = static_cast<std::uint32_t>(entry.tensor._version()) == *version++;
    if (!same && name.empty()) name = entry.name;
  });
  return name;
}

const std::string& Watch::dropped(const arena::Tensors& tensors) {
  auto handles = handles_.begin();
  for_each(tensors, true, [&](const arena::Entry& entry) {
    const bool fewer = static_cast<std::size_t>(entry.tensor.use_count()) < *handles++;
    if (fewer && dropped_.empty()) dropped_ = entry.name;
  });
  return dropped_;
}

}  // namespace lockstep::strategy
