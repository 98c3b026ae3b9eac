#pragma once

namespace lockstep::sim {

/// Makes sure that the autograd engine has a thread for each of `devices` devices. LibTorch's
/// starts its threads at the first backward of the process, for the devices known then: a machine
/// that is made later, or with more devices, gets another engine. No backward may be running.
void serve_backward(int devices);

}  // namespace lockstep::sim
