#pragma once

// What the machine knows of an operator: what its schema says, and what that leaves out.

#include "sim/machine.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace lockstep::sim {

struct Operator {
  std::string name;              ///< "aten::add", without overload
  std::vector<bool> writes;      ///< by argument
  std::vector<bool> trains;      ///< by argument: written if the operator is training
  int training = -1;             ///< argument that says so; -1: it always is
  std::vector<bool> may_mix;     ///< by argument: tensors of the CPU are welcome
  bool is_view = false;          ///< touches no bytes
  bool in_place = true;          ///< what it returns are its arguments
  bool host_waits = false;       ///< returns a number, or a tensor whose size depends on the bytes
  int generator = -1;            ///< argument that is one; -1: none
  bool has_cpu_results = false;  ///< leaves integer results on the CPU, as on CUDA
};

/// Looked up once for each thread and operator. Lives as long as the process.
const Operator& describe(const c10::OperatorHandle& op);

/// Arithmetic of an operator by its inputs and its first output, and bytes of all of them.
Cost cost_of(const Operator& op, const std::vector<at::Tensor>& inputs,
             const std::vector<at::Tensor>& outputs);

}  // namespace lockstep::sim
