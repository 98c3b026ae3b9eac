#include <lockstep/kernels/projection.h>

#include <algorithm>
#include <limits>

#include <lockstep/kernels/products.h>
#include "kernels/softmax_loops.h"

namespace lockstep::kernels {
namespace {

using at::Tensor;

constexpr std::int64_t kBlockClasses = 256;  // whose logits stay in the second cache

/// A chunk's logits are [classes, rows]: then the large matrices of all three products are read in
/// the order they have in memory, and the softmax goes over all rows side by side.
class Pass {
 public:
  Pass(const ProjectionInputs& in, WantedGradients wanted)
      : in_(in),
        wanted_(wanted),
        classes_(in.weight.size(0)),
        bias_(in.bias.defined() ? in.bias.contiguous() : Tensor()),
        room_(torch::empty({in.chunk_rows * classes_}, in.features.options())),
        losses_(torch::empty({in.features.size(0)}, in.features.options().dtype(torch::kFloat64))) {
    if (wanted.features) d_features_ = torch::empty(in.features.sizes(), in.features.options());
    if (wanted.weight) d_weight_ = torch::empty(in.weight.sizes(), in.weight.options());
    if (wanted.bias) d_bias_ = torch::zeros_like(bias_);
  }

  ProjectionLoss run() {
    const std::int64_t rows = in_.features.size(0);
    if (rows == 0 && wanted_.weight) d_weight_.zero_();
    for (std::int64_t first = 0; first < rows; first += in_.chunk_rows)
      chunk(first, std::min(in_.chunk_rows, rows - first));
    return {losses_.sum().to(torch::kFloat32), d_features_, d_weight_, d_bias_};
  }

 private:
  void chunk(std::int64_t first, std::int64_t rows) {
    const Tensor features = in_.features.narrow(0, first, rows);
    const Tensor labels = in_.labels.narrow(0, first, rows).unsqueeze(0);
    const Tensor logits = room_.narrow(0, 0, classes_ * rows).view({classes_, rows});
    const Tensor largest = logits_of(features, logits);
    Tensor expected = label_logits(logits, labels).mul_(1 - in_.smoothing);
    if (in_.smoothing > 0) expected.add_(mean_logits(logits), in_.smoothing);
    const Tensor sums = exponentiate(logits, largest);
    losses_.narrow(0, first, rows).copy_(sums.log().add_(largest).sub_(expected));
    if (wanted_.any()) differentiate(first, features, labels, logits, sums);
  }

  /// Fills in the logits without their bias; returns the largest of each row with it.
  Tensor logits_of(const Tensor& features, const Tensor& logits) const {
    constexpr float kNone = -std::numeric_limits<float>::infinity();
    Tensor largest = torch::full({logits.size(1)}, kNone, features.options());
    const PackedMatrix columns(features.t());
    for_blocks([&](std::int64_t begin, std::int64_t count) {
      columns.product_into(in_.weight.narrow(0, begin, count), logits.narrow(0, begin, count));
      softmax::raise_largest(block(logits, begin, count), largest.data_ptr<float>());
    });
    return largest;
  }

  Tensor label_logits(const Tensor& logits, const Tensor& labels) const {
    Tensor result = logits.gather(0, labels).squeeze(0);
    return bias_.defined() ? result.add_(bias_.take(labels.squeeze(0))) : result;
  }

  Tensor mean_logits(const Tensor& logits) const {
    Tensor result = logits.mean(0);
    return bias_.defined() ? result.add_(bias_.mean()) : result;
  }

  /// Logits to powers of e, in place; returns the sums of each row.
  Tensor exponentiate(const Tensor& logits, const Tensor& largest) const {
    Tensor sums = torch::zeros({logits.size(1)}, losses_.options());
    for_blocks([&](std::int64_t begin, std::int64_t count) {
      softmax::exponentiate(block(logits, begin, count), largest.const_data_ptr<float>(),
                            sums.data_ptr<double>());
    });
    return sums;
  }

  /// The gradients of a chunk. `powers` become the gradient by the logits times `sums`: the sums
  /// are divided by where there are fewer numbers.
  void differentiate(std::int64_t first, const Tensor& features, const Tensor& labels,
                     const Tensor& powers, const Tensor& sums) {
    const auto floats = [](const Tensor& tensor) { return tensor.to(torch::kFloat32); };
    const Tensor share = floats(sums.reciprocal());
    powers.scatter_add_(0, labels, floats(sums * (in_.smoothing - 1)).unsqueeze(0));
    const Tensor elsewhere = floats(sums * (in_.smoothing / static_cast<double>(classes_)));
    const PackedMatrix shared(features * share.unsqueeze(1));
    Tensor d_features;
    if (wanted_.features) d_features = d_features_.narrow(0, first, features.size(0)).zero_();
    for_blocks([&](std::int64_t begin, std::int64_t count) {
      const Tensor some = powers.narrow(0, begin, count);
      if (in_.smoothing > 0) some.sub_(elsewhere);
      if (wanted_.bias) d_bias_.narrow(0, begin, count).addmv_(some, share);
      if (wanted_.weight) {
        const Tensor into = d_weight_.narrow(0, begin, count);
        first == 0 ? shared.product_into(some, into) : shared.add_product(some, into);
      }
      if (wanted_.features) add_product(some.t(), in_.weight.narrow(0, begin, count), d_features);
    });
    if (wanted_.features) d_features.mul_(share.unsqueeze(1));
  }

  /// Calls action(begin, count) for some classes at a time.
  template <class Action>
  void for_blocks(const Action& action) const {
    for (std::int64_t begin = 0; begin < classes_; begin += kBlockClasses)
      action(begin, std::min(kBlockClasses, classes_ - begin));
  }

  softmax::Block block(const Tensor& logits, std::int64_t begin, std::int64_t count) const {
    return {.logits = logits.data_ptr<float>() + begin * logits.size(1),
            .classes = count,
            .rows = logits.size(1),
            .bias = bias_.defined() ? bias_.const_data_ptr<float>() + begin : nullptr};
  }

  const ProjectionInputs& in_;
  const WantedGradients wanted_;
  const std::int64_t classes_;
  const Tensor bias_, room_, losses_;
  Tensor d_features_, d_weight_, d_bias_;
};

}  // namespace

ProjectionLoss projection_cross_entropy(const ProjectionInputs& in, WantedGradients wanted) {
  return Pass(in, wanted).run();
}

}  // namespace lockstep::kernels
