#pragma once

// Tensors on the CPU as bytes.

#include <torch/torch.h>

#include <span>
#include <vector>

#include "base/letter.h"

namespace lockstep::collective {

/// Of a contiguous one.
std::span<const std::byte> bytes_of(const torch::Tensor& tensor);
std::span<std::byte> writable_bytes_of(const torch::Tensor& tensor);

/// A list with its types and sizes; undefined tensors stay undefined. Those that are read own their
/// memory.
void put_tensors(base::Letter& letter, const std::vector<torch::Tensor>& tensors);
std::vector<torch::Tensor> get_tensors(base::LetterReader& letter);

}  // namespace lockstep::collective
