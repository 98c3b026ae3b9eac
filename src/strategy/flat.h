#pragma once

// State in its three forms: whole arenas, one tower's slices of them, and named tensors.

#include <lockstep/state.h>
#include <torch/torch.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "arena/arena.h"

namespace lockstep::strategy {

/// Where each trainable parameter sits, and in which buckets its gradient is exchanged.
struct ParameterMap {
  /// Buckets of about so many bytes, see arena::buckets. `layouts` must live on.
  ParameterMap(const std::vector<arena::Layout>& layouts, std::int64_t bucket_bytes);

  const std::vector<arena::Layout>& layouts;
  std::vector<arena::Bucket> buckets;
  std::vector<const arena::Seat*> seats;             ///< by parameter
  std::vector<std::vector<std::size_t>> buckets_of;  ///< by parameter
};

/// Whole arenas, one a layout; or the slices of one tower, one a bucket.
using Flats = std::vector<torch::Tensor>;

Flats allocate(const std::vector<arena::Layout>& layouts, torch::Device device);

/// In place, one by one.
void copy_all(const Flats& to, const Flats& from);

/// Slice `rank` of `towers` of each bucket of whole arenas: views, to copy from or into.
Flats slices_of(const Flats& whole, const std::vector<arena::Bucket>& buckets, int rank,
                int towers);

/// The name under which a tensor is in the state; empty: it is not there.
using Naming = std::function<std::string(const arena::Seat&)>;
std::string own_name(const arena::Seat& seat);

/// The tensors that sit in whole arenas: copies.
std::vector<NamedTensor> named(const Flats& whole, const std::vector<arena::Layout>& layouts,
                               const Naming& name = own_name);

/// Tensors of a state, found by name. Throws ConfigError when one is not there, or of another size
/// or type. The tensors must live on.
class ByName {
 public:
  explicit ByName(const std::vector<NamedTensor>& tensors);

  const torch::Tensor& at(const std::string& name, at::IntArrayRef sizes,
                          torch::ScalarType dtype) const;

  /// The reverse of `named`: whole arenas on the CPU.
  Flats flats(const std::vector<arena::Layout>& layouts, const Naming& name = own_name) const;

 private:
  std::map<std::string, const torch::Tensor*> by_name_;
};

}  // namespace lockstep::strategy
