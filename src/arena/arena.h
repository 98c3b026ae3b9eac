#pragma once

// Arenas: one contiguous buffer that holds all parameters (or slots, or buffers) of one dtype.

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::arena {

/// Elements to which all cuts of an arena are aligned: slices, norm blocks. Fixed for good, because
/// the gradient norm is summed block by block. See "Note: blocks".
inline constexpr std::int64_t kBlock = 4096;

/// A tensor of a model and its name there; one that is registered twice appears once.
struct Entry {
  std::string name;
  torch::Tensor tensor;
};

/// What a model registers, sorted by how Lockstep treats it.
struct Tensors {
  std::vector<Entry> trainable;
  std::vector<Entry> frozen;
  std::vector<Entry> buffers;
};

Tensors tensors_of(const torch::nn::Module& model);

/// Where one tensor sits in its arena, in its own memory order.
struct Seat {
  std::string name;
  std::size_t entry = 0;    ///< index into the list the layout was made from
  std::int64_t offset = 0;  ///< in elements; a multiple of 128 bytes
  std::int64_t numel = 0;
  std::vector<std::int64_t> sizes = {}, strides = {};
};

/// The seats of all tensors of one dtype, by rising offset.
struct Layout {
  torch::Dtype dtype = torch::kFloat32;
  std::vector<Seat> seats = {};
  std::int64_t size = 0;  ///< in elements, gaps between seats included

  std::int64_t blocks() const { return (size + kBlock - 1) / kBlock; }
  /// The first seat that reaches beyond `offset`.
  std::vector<Seat>::const_iterator seat_after(std::int64_t offset) const;
};

/// One layout a dtype, in order of first appearance.
std::vector<Layout> layouts(const std::vector<Entry>& entries);

/// A zeroed flat buffer.
torch::Tensor allocate(std::int64_t size, torch::Dtype dtype, torch::Device device);

/// One for `layout`, gaps included.
torch::Tensor allocate(const Layout& layout, torch::Device device);

/// The part of `flat` in which `seat` sits, with the tensor's sizes and strides; `flat` begins at
/// element `origin` of the arena.
torch::Tensor view(const torch::Tensor& flat, const Seat& seat, std::int64_t origin = 0);

/// The same, in a storage that is the seat and no more, which is what torch::save writes; the arena
/// lives on with it.
torch::Tensor alone(const torch::Tensor& flat, const Seat& seat);

/// Makes `tensor` one with its seat in `flat`, alone. What it held is lost: copy it before, if need
/// be.
void seat(torch::Tensor& tensor, const torch::Tensor& flat, const Seat& seat);

bool is_seated(const torch::Tensor& tensor, const torch::Tensor& flat, const Seat& seat);

/// Elements [begin, end) of an arena: what one tower reduces and updates of a bucket.
struct Slice {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

/// A run of blocks of arena `arena`: what is reduced at one go.
struct Bucket {
  std::size_t arena = 0;  ///< index into the list of layouts
  Slice range;
};

/// Cuts every arena into buckets of about `bytes`, in order; 0: each arena is one bucket.
std::vector<Bucket> buckets(const std::vector<Layout>& layouts, std::int64_t bytes);

/// Slice `tower` of `towers`, cut at blocks; some are empty when there are fewer blocks.
Slice slice_of(const Bucket& bucket, int tower, int towers);

}  // namespace lockstep::arena
