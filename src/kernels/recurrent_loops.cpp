#include "kernels/recurrent_loops.h"

#include <ATen/Parallel.h>

#include "kernels/vector_math.h"

namespace lockstep::kernels {
namespace {

using vector_math::bits_of;
using vector_math::exp;

constexpr std::int64_t kGrain = 16384;  // numbers that are worth a thread

LOCKSTEP_INLINE float sigmoid(float x) { return 1 / (1 + exp(-x)); }

LOCKSTEP_INLINE float tanh(float x) {
  constexpr std::int32_t kNear = std::bit_cast<std::int32_t>(0.25F);
  const float magnitude = std::fabs(x);
  const float e = exp(-2 * magnitude);
  const float far = std::copysign((1 - e) / (1 + e), x);
  const float s = x * x;  // near 0 that difference has few digits left: the series
  const float near =
      x + x * s * (-1 / 3.F + s * (2 / 15.F + s * (-17 / 315.F + s * (62 / 2835.F))));
  const std::int32_t choice = bits_of(magnitude) < kNear ? -1 : 0;
  return std::bit_cast<float>((bits_of(near) & choice) | (bits_of(far) & ~choice));
}

/// Calls row(begin, end) for ranges of rows. Rows do not see each other, so threads change nothing.
template <class Rows>
void for_rows(CellSize size, const Rows& of_rows) {
  const std::int64_t grain = kGrain / (4 * size.hidden) + 1;
  at::parallel_for(0, size.rows, grain, of_rows);
}

LOCKSTEP_CLONES void lstm_row(std::int64_t n, float* __restrict gates, const float* __restrict cell,
                              float* __restrict new_cell, float* __restrict new_hidden) {
  float *enter = gates, *forget = gates + n, *candidate = gates + 2 * n, *leave = gates + 3 * n;
  for (std::int64_t i = 0; i < n; ++i) {
    enter[i] = sigmoid(enter[i]);
    forget[i] = sigmoid(forget[i]);
    candidate[i] = tanh(candidate[i]);
    leave[i] = sigmoid(leave[i]);
    new_cell[i] = forget[i] * cell[i] + enter[i] * candidate[i];
    new_hidden[i] = leave[i] * tanh(new_cell[i]);
  }
}

LOCKSTEP_CLONES void lstm_row_back(std::int64_t n, const float* __restrict gates,
                                   const float* __restrict cell, const float* __restrict new_cell,
                                   float* __restrict d_gates, const float* __restrict d_hidden,
                                   float* __restrict d_cell) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float enter = gates[i], forget = gates[n + i], candidate = gates[2 * n + i],
                leave = gates[3 * n + i];
    const float squashed = tanh(new_cell[i]);
    const float d = d_cell[i] + d_hidden[i] * leave * (1 - squashed * squashed);
    d_gates[i] = d * candidate * enter * (1 - enter);
    d_gates[n + i] = d * cell[i] * forget * (1 - forget);
    d_gates[2 * n + i] = d * enter * (1 - candidate * candidate);
    d_gates[3 * n + i] = d_hidden[i] * squashed * leave * (1 - leave);
    d_cell[i] = d * forget;
  }
}

LOCKSTEP_CLONES void gru_row(std::int64_t n, float* __restrict gates,
                             const float* __restrict hidden, float* __restrict new_hidden) {
  float *candidate = gates, *reset = gates + n, *update = gates + 2 * n;
  const float* recurring = gates + 3 * n;
  for (std::int64_t i = 0; i < n; ++i) {
    reset[i] = sigmoid(reset[i]);
    update[i] = sigmoid(update[i]);
    candidate[i] = tanh(candidate[i] + reset[i] * recurring[i]);
    new_hidden[i] = candidate[i] + update[i] * (hidden[i] - candidate[i]);
  }
}

LOCKSTEP_CLONES void gru_row_back(std::int64_t n, const float* __restrict gates,
                                  const float* __restrict hidden, float* __restrict d_gates,
                                  float* __restrict d_hidden) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float candidate = gates[i], reset = gates[n + i], update = gates[2 * n + i],
                recurring = gates[3 * n + i];
    const float d = d_hidden[i] * (1 - update) * (1 - candidate * candidate);
    d_gates[i] = d;
    d_gates[n + i] = d * recurring * reset * (1 - reset);
    d_gates[2 * n + i] = d_hidden[i] * (hidden[i] - candidate) * update * (1 - update);
    d_gates[3 * n + i] = d * reset;
    d_hidden[i] *= update;
  }
}

}  // namespace

void lstm_loop(CellSize size, float* gates, const float* cell, float* new_cell, float* new_hidden) {
  const std::int64_t n = size.hidden;
  for_rows(size, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      lstm_row(n, gates + 4 * n * row, cell + n * row, new_cell + n * row, new_hidden + n * row);
  });
}

void lstm_loop_back(CellSize size, const float* gates, const float* cell, const float* new_cell,
                    float* d_gates, const float* d_hidden, float* d_cell) {
  const std::int64_t n = size.hidden;
  for_rows(size, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      lstm_row_back(n, gates + 4 * n * row, cell + n * row, new_cell + n * row,
                    d_gates + 4 * n * row, d_hidden + n * row, d_cell + n * row);
  });
}

void gru_loop(CellSize size, float* gates, const float* hidden, float* new_hidden) {
  const std::int64_t n = size.hidden;
  for_rows(size, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      gru_row(n, gates + 4 * n * row, hidden + n * row, new_hidden + n * row);
  });
}

void gru_loop_back(CellSize size, const float* gates, const float* hidden, float* d_gates,
                   float* d_hidden) {
  const std::int64_t n = size.hidden;
  for_rows(size, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      gru_row_back(n, gates + 4 * n * row, hidden + n * row, d_gates + 4 * n * row,
                   d_hidden + n * row);
  });
}

}  // namespace lockstep::kernels
