#include "arena/arena.h"

#include <lockstep/error.h>

#include <algorithm>
#include <cstddef>
#include <unordered_set>

namespace lockstep::arena {
namespace {

constexpr std::int64_t kAlignment = 128;  // bytes: LibTorch's loops go by two vectors of up to 64

std::int64_t aligned(std::int64_t elements, torch::Dtype dtype) {
  const auto step = kAlignment / static_cast<std::int64_t>(c10::elementSize(dtype));
  return (elements + step - 1) / step * step;
}

/// The strides that keep the tensor's memory order where it is dense, else row-major ones.
std::vector<std::int64_t> dense_strides(const torch::Tensor& tensor) {
  if (tensor.is_non_overlapping_and_dense()) return tensor.strides().vec();
  return torch::empty(tensor.sizes(), tensor.options().device(torch::kMeta)).strides().vec();
}

}  // namespace

Tensors tensors_of(const torch::nn::Module& model) {
  Tensors result;
  std::unordered_set<const void*> seen;
  const auto fresh = [&](const torch::Tensor& tensor) {
    return tensor.defined() && seen.insert(tensor.unsafeGetTensorImpl()).second;
  };
  for (const auto& item : model.named_parameters()) {
    if (!fresh(item.value())) continue;
    (item.value().requires_grad() ? result.trainable : result.frozen)
        .push_back({item.key(), item.value()});
  }
  for (const auto& item : model.named_buffers())
    if (fresh(item.value())) result.buffers.push_back({item.key(), item.value()});
  return result;
}

std::vector<Seat>::const_iterator Layout::seat_after(std::int64_t offset) const {
  return std::partition_point(seats.begin(), seats.end(),
                              [&](const Seat& seat) { return seat.offset + seat.numel <= offset; });
}

std::vector<Layout> layouts(const std::vector<Entry>& entries) {
  std::vector<Layout> result;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const torch::Tensor& tensor = entries[i].tensor;
    const auto dtype = tensor.scalar_type();
    auto layout = std::find_if(result.begin(), result.end(),
                               [&](const Layout& candidate) { return candidate.dtype == dtype; });
    if (layout == result.end()) layout = result.insert(result.end(), {.dtype = dtype});
    layout->seats.push_back({.name = entries[i].name,
                             .entry = i,
                             .offset = layout->size,
                             .numel = tensor.numel(),
                             .sizes = tensor.sizes().vec(),
                             .strides = dense_strides(tensor)});
    layout->size += aligned(tensor.numel(), dtype);
  }
  return result;
}

torch::Tensor allocate(std::int64_t size, torch::Dtype dtype, torch::Device device) {
  return torch::zeros({size}, torch::dtype(dtype).device(device));
}

torch::Tensor allocate(const Layout& layout, torch::Device device) {
  return allocate(layout.size, layout.dtype, device);
}

torch::Tensor view(const torch::Tensor& flat, const Seat& seat, std::int64_t origin) {
  return flat.as_strided(seat.sizes, seat.strides, flat.storage_offset() + seat.offset - origin);
}

torch::Tensor alone(const torch::Tensor& flat, const Seat& where) {
  const torch::NoGradGuard no_grad;
  const auto width = static_cast<std::int64_t>(flat.element_size());
  auto* begin = static_cast<std::byte*>(flat.mutable_data_ptr()) + where.offset * width;
  c10::DataPtr bytes(
      begin, new c10::Storage(flat.storage()),
      [](void* arena) { delete static_cast<c10::Storage*>(arena); }, flat.device());
  const c10::Storage own(c10::Storage::use_byte_size_t(),
                         static_cast<std::size_t>(where.numel * width), std::move(bytes),
                         flat.storage().allocator(), /*resizable=*/true);
  return torch::empty({0}, flat.options()).set_(own, 0, where.sizes, where.strides);
}

void seat(torch::Tensor& tensor, const torch::Tensor& flat, const Seat& where) {
  check(tensor.scalar_type() == flat.scalar_type() && tensor.sizes() == where.sizes,
        "a tensor and its seat differ in dtype or sizes");
  const torch::NoGradGuard no_grad;
  tensor.set_data(alone(flat, where));
}

bool is_seated(const torch::Tensor& tensor, const torch::Tensor& flat, const Seat& where) {
  if (tensor.sizes() != where.sizes || tensor.scalar_type() != flat.scalar_type()) return false;
  if (where.numel == 0) return true;  // LibTorch gives it no address
  const auto* begin = static_cast<const std::byte*>(flat.const_data_ptr());
  return tensor.strides() == where.strides &&
         tensor.const_data_ptr() == begin + where.offset * flat.element_size();
}

std::vector<Bucket> buckets(const std::vector<Layout>& layouts, std::int64_t bytes) {
  std::vector<Bucket> result;
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const auto width = static_cast<std::int64_t>(c10::elementSize(layouts[i].dtype));
    const std::int64_t step =
        bytes == 0 ? layouts[i].size : std::max(bytes / width / kBlock, std::int64_t{1}) * kBlock;
    std::int64_t begin = 0;
    do {
      const std::int64_t end = std::min(begin + step, layouts[i].size);
      result.push_back({i, {begin, end}});
      begin = end;
    } while (begin < layouts[i].size);
  }
  return result;
}

Slice slice_of(const Bucket& bucket, int tower, int towers) {
  const std::int64_t blocks = (bucket.range.size() + kBlock - 1) / kBlock;
  const auto cut = [&](int t) {
    return std::min(bucket.range.begin + blocks * t / towers * kBlock, bucket.range.end);
  };
  return {cut(tower), cut(tower + 1)};
}

}  // namespace lockstep::arena
