#pragma once

// The kernels through which a scope acts on an unchanged model. See "Note: scopes" in
// docs/notes.md.

#include <c10/core/DispatchKey.h>

namespace lockstep::device {

/// Two keys of LibTorch's dispatcher that nothing else uses. A thread takes part in the kernels
/// below only while it includes their key.
inline constexpr auto kRandomKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
inline constexpr auto kDeviceKey = c10::DispatchKey::TESTING_ONLY_GenericWrapper;

/// Registers, once for the process, a kernel for every `aten` operator that draws random numbers
/// (under kRandomKey) and for those that make a tensor from nothing without (under kDeviceKey);
/// under kRandomKey those of kernels/model_products.h as well.
void install_scope_kernels();

}  // namespace lockstep::device
