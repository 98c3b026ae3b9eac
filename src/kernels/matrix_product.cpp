#include <lockstep/kernels/products.h>

#include <ATen/Parallel.h>
#include <lockstep/error.h>

#include <algorithm>

#include "kernels/product_loops.h"

namespace lockstep::kernels {
namespace {

using at::Tensor;
using products::kMostInner;
using products::Matrix;

// Panels that all rows are multiplied with before the next ones: enough that it costs little to lay
// rows out again for each block, 2 MiB at the most.
constexpr std::int64_t kBlockPanels = 32;
constexpr std::int64_t kPanelGrain = 8;  // panels that are worth a thread

/// The inner side in blocks of about the same size.
class Inner {
 public:
  explicit Inner(std::int64_t size) : size_(size), blocks_((size + kMostInner - 1) / kMostInner) {}
  std::int64_t blocks() const { return blocks_; }
  std::int64_t begin(std::int64_t block) const { return size_ * block / blocks_; }
  std::int64_t size(std::int64_t block) const { return begin(block + 1) - begin(block); }
  std::int64_t largest() const { return (size_ + blocks_ - 1) / blocks_; }

 private:
  std::int64_t size_, blocks_;
};

bool is_ours(const Tensor& tensor) {
  return tensor.is_cpu() && tensor.scalar_type() == at::kFloat && tensor.numel() > 0;
}

/// The loops for a product with this matrix; null: LibTorch's.
const products::Loops* loops_for(const Tensor& matrix) {
  return is_ours(matrix) ? products::loops() : nullptr;
}

Matrix view(const Tensor& tensor, std::int64_t row, std::int64_t column) {
  return {
      .data = tensor.const_data_ptr<float>() + row * tensor.stride(0) + column * tensor.stride(1),
      .row_stride = tensor.stride(0),
      .column_stride = tensor.stride(1)};
}

std::int64_t panels_of(const products::Loops& loops, std::int64_t columns) {
  return (columns + loops.panel - 1) / loops.panel;
}

void check_shapes(const Tensor& left, const Tensor& right, const Tensor& into) {
  check(left.dim() == 2 && right.dim() == 2 && into.dim() == 2 && left.size(1) == right.size(0) &&
            into.size(0) == left.size(0) && into.size(1) == right.size(1),
        "the sides of a product belong together");
}

/// Goes over panels and, for some of them at a time, over the inner side.
/// `packed(block, first, count)` is where those panels are laid out for a block of the inner side.
template <class Packed>
void multiply_panels(const products::Loops& loops, const Tensor& left, const Tensor& into, bool add,
                     std::int64_t first, std::int64_t last, const Packed& packed) {
  const Inner inner(left.size(1));
  for (; first < last; first += kBlockPanels) {
    const std::int64_t count = std::min(kBlockPanels, last - first), column = first * loops.panel;
    for (std::int64_t block = 0; block < inner.blocks(); ++block)
      loops.multiply({.left = view(left, 0, inner.begin(block)),
                      .right = packed(block, first, count),
                      .into = into.mutable_data_ptr<float>() + column,
                      .into_stride = into.stride(0),
                      .rows = left.size(0),
                      .inner = inner.size(block),
                      .columns = std::min(count * loops.panel, into.size(1) - column),
                      .add = add || block > 0});
  }
}

void multiply(const Tensor& left, const Tensor& right, const Tensor& into, bool add) {
  check_shapes(left, right, into);
  const products::Loops* const loops = loops_for(right);
  if (!loops || !is_ours(left) || !is_ours(into) || into.stride(1) != 1) {
    into.addmm_(left, right, /*beta=*/add);
    return;
  }
  const Inner inner(right.size(0));
  at::parallel_for(0, panels_of(*loops, right.size(1)), kPanelGrain, [&](auto first, auto last) {
    const std::int64_t together = std::min<std::int64_t>(kBlockPanels, last - first);
    const Tensor room = at::empty({together * inner.largest() * loops->panel}, right.options());
    multiply_panels(*loops, left, into, add, first, last,
                    [&](std::int64_t block, std::int64_t panel, std::int64_t count) {
                      const std::int64_t column = panel * loops->panel;
                      loops->pack(view(right, inner.begin(block), column), inner.size(block),
                                  std::min(count * loops->panel, right.size(1) - column),
                                  room.mutable_data_ptr<float>());
                      return room.const_data_ptr<float>();
                    });
  });
}

}  // namespace

Tensor product(const Tensor& left, const Tensor& right) {
  if (!loops_for(right)) return left.mm(right);
  const Tensor result = at::empty({left.size(0), right.size(1)}, right.options());
  multiply(left, right, result, /*add=*/false);
  return result;
}

void product_into(const Tensor& left, const Tensor& right, const Tensor& into) {
  multiply(left, right, into, /*add=*/false);
}

void add_product(const Tensor& left, const Tensor& right, const Tensor& into) {
  multiply(left, right, into, /*add=*/true);
}

PackedMatrix::PackedMatrix(const Tensor& matrix) : matrix_(matrix) {
  check(matrix.dim() == 2, "a matrix has rows and columns");
  const products::Loops* const loops = loops_for(matrix);
  if (!loops) return;
  const Inner inner(matrix.size(0));
  const std::int64_t columns = panels_of(*loops, matrix.size(1)) * loops->panel;
  panels_ = at::empty({matrix.size(0) * columns}, matrix.options());
  for (std::int64_t block = 0; block < inner.blocks(); ++block)
    loops->pack(view(matrix, inner.begin(block), 0), inner.size(block), matrix.size(1),
                panels_.mutable_data_ptr<float>() + inner.begin(block) * columns);
}

void PackedMatrix::product_into(const Tensor& left, const Tensor& into) const {
  multiply(left, into, /*add=*/false);
}

void PackedMatrix::add_product(const Tensor& left, const Tensor& into) const {
  multiply(left, into, /*add=*/true);
}

void PackedMatrix::multiply(const Tensor& left, const Tensor& into, bool add) const {
  if (!panels_.defined() || into.numel() == 0) {
    into.addmm_(left, matrix_, /*beta=*/add);
    return;
  }
  check_shapes(left, matrix_, into);
  check(is_ours(left) && is_ours(into) && into.stride(1) == 1,
        "a packed matrix is multiplied in single precision");
  const products::Loops& loops = *products::loops();
  const Inner inner(matrix_.size(0));
  const std::int64_t panels = panels_of(loops, matrix_.size(1));
  at::parallel_for(0, panels, kPanelGrain, [&](auto first, auto last) {
    multiply_panels(loops, left, into, add, first, last,
                    [&](std::int64_t block, std::int64_t panel, std::int64_t) {
                      return panels_.const_data_ptr<float>() +
                             (inner.begin(block) * panels + panel * inner.size(block)) *
                                 loops.panel;
                    });
  });
}

}  // namespace lockstep::kernels
