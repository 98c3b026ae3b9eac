#include "sim/kernels.h"

#include <ATen/autocast_mode.h>

namespace lockstep::sim {
namespace {

using at::IntArrayRef;  // LibTorch's list of operators names its types so
using at::Scalar;
using at::ScalarType;
using at::Tensor;

at::Tensor forbid_binary_cross_entropy(const at::Tensor&, const at::Tensor&,
                                       const std::optional<at::Tensor>&, std::int64_t) {
  TORCH_CHECK(
      false, "binary_cross_entropy is unsafe under autocast: use binary_cross_entropy_with_logits");
}

}  // namespace

void register_autocast(torch::Library& m) {
#define LOCKSTEP_LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define LOCKSTEP_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define LOCKSTEP_FP32_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define LOCKSTEP_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_LOWER_PRECISION_FP(LOCKSTEP_LOWER)
  AT_FORALL_FP32(LOCKSTEP_FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(LOCKSTEP_FP32_DTYPE)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(LOCKSTEP_PROMOTE)
  KERNEL_PRIVATEUSEONE(stack, promote)
  KERNEL_PRIVATEUSEONE(cat, promote)
#undef LOCKSTEP_LOWER
#undef LOCKSTEP_FP32
#undef LOCKSTEP_FP32_DTYPE
#undef LOCKSTEP_PROMOTE
  m.impl("binary_cross_entropy", TORCH_FN(forbid_binary_cross_entropy));
}

}  // namespace lockstep::sim
