#pragma once

// The operators that a simulated device has a kernel of its own for. All others run the CPU's.

#include <torch/library.h>

namespace lockstep::sim {

void register_factories(torch::Library& aten);  ///< memory and views of it
void register_copies(torch::Library& aten);     ///< within and between devices, and to the host
void register_layers(torch::Library& aten);     ///< convolution, dropout
void register_cells(torch::Library& aten);      ///< LSTM and GRU
void register_autocast(torch::Library& aten);   ///< of key AutocastPrivateUse1

}  // namespace lockstep::sim
