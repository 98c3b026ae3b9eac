#include "kernels/model_products.h"

#include <ATen/RedispatchFunctions.h>
#include <lockstep/kernels/products.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "kernels/product_loops.h"

namespace lockstep::kernels {
namespace {

using at::Scalar, at::Tensor;
using c10::DispatchKey, c10::DispatchKeySet;
using torch::autograd::AutogradContext, torch::autograd::variable_list;

// Below these a product takes a few microseconds, and a node of autograd of our own costs as much.
constexpr std::int64_t kFewestRows = 8, kFewestColumns = 16, kFewestProducts = 1 << 18;

/// Whether loops of our own make this product.
bool is_ours(const Tensor& left, const Tensor& right) {
  for (const Tensor* side : {&left, &right})
    if (side->dim() != 2 || side->scalar_type() != at::kFloat || !side->is_cpu()) return false;
  const std::int64_t rows = left.size(0), inner = left.size(1), columns = right.size(1);
  return inner == right.size(0) && rows >= kFewestRows && columns >= kFewestColumns &&
         rows * inner * columns >= kFewestProducts && products::loops();
}

/// The same for a sum with it.
bool is_ours(const Tensor& bias, const Tensor& left, const Tensor& right, const Scalar& beta,
             const Scalar& alpha) {
  return bias.scalar_type() == at::kFloat && bias.dim() <= 2 && beta.equal(1) && alpha.equal(1) &&
         is_ours(left, right);
}

/// Whether nobody but autograd watches over a call.
template <class... Tensors>
bool is_plain(DispatchKeySet keys, DispatchKey own, const Tensors&... tensors) {
  const DispatchKeySet plain{own, DispatchKey::CPU, DispatchKey::AutogradCPU,
                             DispatchKey::ADInplaceOrView};
  return (keys.raw_repr() & ~plain.raw_repr()) == 0 && (!tensors._fw_grad(0).defined() && ...);
}

bool is_transposed(const Tensor& matrix) {
  return matrix.stride(0) == 1 && matrix.stride(1) == matrix.size(0);
}

/// The gradients of both sides, in their memory order, for `slope` of the product. They have
/// gradients in turn.
variable_list slopes_of(const AutogradContext& context, std::size_t first, const Tensor& left,
                        const Tensor& right, const Tensor& slope) {
  variable_list result(2);
  if (context.needs_input_grad(first))
    result[0] = is_transposed(left) ? right.mm(slope.t()).t() : slope.mm(right.t());
  if (context.needs_input_grad(first + 1))
    result[1] = is_transposed(right) ? slope.t().mm(left).t() : left.t().mm(slope);
  return result;
}

struct Product : torch::autograd::Function<Product> {
  static Tensor forward(AutogradContext* context, const Tensor& left, const Tensor& right) {
    context->set_materialize_grads(false);
    context->save_for_backward({left, right});
    return product(left, right);
  }
  static variable_list backward(AutogradContext* context, const variable_list& slopes) {
    if (!slopes[0].defined()) return variable_list(2);
    const variable_list sides = context->get_saved_variables();
    return slopes_of(*context, 0, sides[0], sides[1], slopes[0]);
  }
};

/// bias + left right; a bias of one row counts for all.
Tensor sum_of(const Tensor& bias, const Tensor& left, const Tensor& right) {
  const Tensor result = at::empty({left.size(0), right.size(1)}, right.options());
  result.copy_(bias);
  add_product(left, right, result);
  return result;
}

struct BiasAndProduct : torch::autograd::Function<BiasAndProduct> {
  static Tensor forward(AutogradContext* context, const Tensor& bias, const Tensor& left,
                        const Tensor& right) {
    context->set_materialize_grads(false);
    context->save_for_backward({left, right});
    return sum_of(bias, left, right);
  }
  static variable_list backward(AutogradContext* context, const variable_list& slopes) {
    if (!slopes[0].defined()) return variable_list(3);
    const variable_list sides = context->get_saved_variables();
    variable_list result = slopes_of(*context, 1, sides[0], sides[1], slopes[0]);
    // Autograd sums it up to the size of the bias.
    result.insert(result.begin(), context->needs_input_grad(0) ? slopes[0] : Tensor());
    return result;
  }
};

template <class... Tensors>
bool needs_gradient(const Tensors&... tensors) {
  return at::GradMode::is_enabled() && (tensors.requires_grad() || ...);
}

DispatchKeySet below(DispatchKeySet keys, DispatchKey key) {
  return keys & DispatchKeySet(DispatchKeySet::FULL_AFTER, key);
}

}  // namespace

Tensor model_mm(const Tensor& left, const Tensor& right) {
  return is_ours(left, right) ? product(left, right) : at::mm(left, right);
}

Tensor model_addmm(const Tensor& bias, const Tensor& left, const Tensor& right, const Scalar& beta,
                   const Scalar& alpha) {
  return is_ours(bias, left, right, beta, alpha) ? sum_of(bias, left, right)
                                                 : at::addmm(bias, left, right, beta, alpha);
}

void install_model_products(DispatchKey key) {
  static auto* library = new torch::Library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
  library->impl("mm", [key](DispatchKeySet keys, const Tensor& left, const Tensor& right) {
    if (!is_ours(left, right) || !is_plain(keys, key, left, right))
      return at::redispatch::mm(below(keys, key), left, right);
    return needs_gradient(left, right) ? Product::apply(left, right) : product(left, right);
  });
  library->impl("addmm", [key](DispatchKeySet keys, const Tensor& bias, const Tensor& left,
                               const Tensor& right, const Scalar& beta, const Scalar& alpha) {
    if (!is_ours(bias, left, right, beta, alpha) || !is_plain(keys, key, bias, left, right))
      return at::redispatch::addmm(below(keys, key), bias, left, right, beta, alpha);
    return needs_gradient(bias, left, right) ? BiasAndProduct::apply(bias, left, right)
                                             : sum_of(bias, left, right);
  });
}

}  // namespace lockstep::kernels
