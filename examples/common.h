#pragma once

// What the examples share. Nothing in it knows how many devices there are.

#include <lockstep/vision/idx.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <iomanip>
#include <iostream>
#include <string>
#include <utility>

/// The same initial weights in both programs of a pair, in place. A model draws its own from
/// LibTorch's generator in one program and from Method::seed in the other.
inline void initialise(torch::nn::Module& net) {
  const torch::NoGradGuard no_grad;
  auto random = torch::make_generator<torch::CPUGeneratorImpl>(1);
  for (auto& parameter : net.named_parameters()) {
    torch::Tensor& value = parameter.value();
    if (value.dim() > 1) {
      const double limit =
          std::sqrt(static_cast<double>(value.size(0)) / static_cast<double>(value.numel()));
      value.copy_((torch::rand(value.sizes(), random) * 2 - 1) * limit);
    } else {
      value.fill_(parameter.key().find("bias") == std::string::npos ? 1.0 : 0.0);
    }
  }
}

/// A number that changes with every bit of the parameters and buffers (FNV-1a).
inline std::uint64_t checksum(const torch::nn::Module& net) {
  std::uint64_t hash = 14695981039346656037U;
  const auto add = [&](const torch::Tensor& tensor) {
    const torch::Tensor bytes = tensor.detach().cpu().contiguous().view(-1).view(torch::kUInt8);
    for (std::int64_t i = 0; i < bytes.numel(); ++i)
      hash = (hash ^ bytes.const_data_ptr<std::uint8_t>()[i]) * 1099511628211U;
  };
  for (const auto& parameter : net.parameters()) add(parameter);
  for (const auto& buffer : net.buffers()) add(buffer);
  return hash;
}

/// `rows` rows of a data set that is gone through in one fixed order, again and again.
inline torch::Tensor rows_at(const torch::Tensor& all, std::int64_t step, std::int64_t rows) {
  return all.narrow(0, step * rows % (all.size(0) - rows + 1), rows);
}

/// Random numbers that belong to a step, whatever was drawn before.
inline torch::Tensor noise_at(std::int64_t step, torch::IntArrayRef sizes) {
  auto random = torch::make_generator<torch::CPUGeneratorImpl>(static_cast<std::uint64_t>(step));
  return torch::randn(sizes, random);
}

/// "step 10 loss 0.693147182", with all digits of a float.
inline void print(int step, std::initializer_list<std::pair<const char*, double>> values) {
  std::cout << "step " << step << std::setprecision(9);
  for (const auto& [name, value] : values) std::cout << ' ' << name << ' ' << value;
  std::cout << '\n';
}

inline void print_checksum(const torch::nn::Module& net) {
  std::cout << "checksum " << checksum(net) << '\n';
}
