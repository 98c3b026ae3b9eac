#pragma once

namespace lockstep::sim {

/// Backward runs on the autograd engine's threads: gives them as many intra-op threads as the
/// thread had that ran the forward of `device`, since kernels sum in another order with another
/// number.
void use_threads_of_forward(int device);

}  // namespace lockstep::sim
