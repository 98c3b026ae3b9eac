#pragma once

// Contrastive learning as SimCLR does it: two views of an image shall be closer to each other than
// to any other row of the whole batch.

#include "common.h"

/// Two views of each image: one flipped, each with noise of its own.
struct Views {
  torch::Tensor first, second;
  auto tensors() { return std::tie(first, second); }
};

inline Views views_at(const torch::Tensor& images, std::int64_t step, std::int64_t rows) {
  const torch::Tensor image = rows_at(images, step, rows);
  return {image + 0.1 * noise_at(2 * step, image.sizes()),
          image.flip(3) + 0.1 * noise_at(2 * step + 1, image.sizes())};
}

struct Net : torch::nn::Module {
  Net() {
    using namespace torch::nn;
    encoder = register_module(
        "encoder", Sequential(Conv2d(Conv2dOptions(1, 16, 5).stride(2).padding(2)), ReLU(),
                              Conv2d(Conv2dOptions(16, 32, 3).stride(2).padding(1)), ReLU(),
                              Flatten(), Linear(32 * 7 * 7, 64), ReLU()));
    projection = register_module("projection", Linear(64, 32));
  }

  torch::Tensor forward(const torch::Tensor& images) {
    return torch::nn::functional::normalize(projection(encoder->forward(images)));
  }

  torch::nn::Sequential encoder = nullptr;
  torch::nn::Linear projection = nullptr;
};

/// What each row gives on its own: [rows, 2, size].
inline torch::Tensor projections(Net& net, const Views& views) {
  return torch::stack({net.forward(views.first), net.forward(views.second)}, 1);
}

/// NT-Xent over all rows together.
inline torch::Tensor nt_xent(const torch::Tensor& rows) {
  const std::int64_t n = rows.size(0);
  const torch::Tensor z = rows.transpose(0, 1).flatten(0, 1);  // all first views, then the second
  const torch::Tensor self = torch::eye(2 * n, z.options()).to(torch::kBool);
  const torch::Tensor similar = torch::mm(z, z.t()).div(0.5).masked_fill(self, -1e9);
  const torch::Tensor other =
      (torch::arange(2 * n, z.options().dtype(torch::kInt64)) + n) % (2 * n);
  return torch::nn::functional::cross_entropy(similar, other);
}
