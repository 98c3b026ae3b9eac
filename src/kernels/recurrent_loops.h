#pragma once

// What recurrent_cells.h says, on plain floats, in one pass over memory.

#include <cstdint>

namespace lockstep::kernels {

struct CellSize {
  std::int64_t rows, hidden;
};

void lstm_loop(CellSize size, float* gates, const float* cell, float* new_cell, float* new_hidden);
void lstm_loop_back(CellSize size, const float* gates, const float* cell, const float* new_cell,
                    float* d_gates, const float* d_hidden, float* d_cell);
void gru_loop(CellSize size, float* gates, const float* hidden, float* new_hidden);
void gru_loop_back(CellSize size, const float* gates, const float* hidden, float* d_gates,
                   float* d_hidden);

}  // namespace lockstep::kernels
