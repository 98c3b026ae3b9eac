#include "kernels/softmax_loops.h"

#include <vector>

#include "kernels/vector_math.h"

namespace lockstep::kernels::softmax {
namespace {

// Less counts as this, so that no gradient becomes a denormal number.
constexpr float kLeastExponent = 60;

LOCKSTEP_CLONES void raise(std::int64_t rows, const float* __restrict logits, float bias,
                           float* __restrict largest) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float logit = logits[row] + bias;
    largest[row] = logit > largest[row] ? logit : largest[row];
  }
}

LOCKSTEP_CLONES void exponentiate_class(std::int64_t rows, float* __restrict logits, float bias,
                                        const float* __restrict largest, float* __restrict sums) {
  for (std::int64_t row = 0; row < rows; ++row) {
    logits[row] = vector_math::exp(logits[row] + bias - largest[row], kLeastExponent);
    sums[row] += logits[row];
  }
}

float bias_of(const Block& block, std::int64_t index) { return block.bias ? block.bias[index] : 0; }

}  // namespace

void raise_largest(const Block& block, float* largest) {
  for (std::int64_t i = 0; i < block.classes; ++i)
    raise(block.rows, block.logits + i * block.rows, bias_of(block, i), largest);
}

void exponentiate(const Block& block, const float* largest, double* sums) {
  // Single precision will do for the sums of a block.
  std::vector<float> of_block(static_cast<std::size_t>(block.rows));
  for (std::int64_t i = 0; i < block.classes; ++i)
    exponentiate_class(block.rows, block.logits + i * block.rows, bias_of(block, i), largest,
                       of_block.data());
  for (std::size_t row = 0; row < of_block.size(); ++row)
    sums[row] += static_cast<double>(of_block[row]);
}

}  // namespace lockstep::kernels::softmax
