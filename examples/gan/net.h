#pragma once

// A small DCGAN for Fashion-MNIST. A group norm takes the place of DCGAN's batch norm: batch norm
// looks at the rows of a shard, so its result depends on the number of shards.

#include "common.h"

constexpr std::int64_t kNoise = 32;

struct Gan : torch::nn::Module {
  Gan() {
    using namespace torch::nn;
    generator = register_module(
        "generator",
        Sequential(Linear(kNoise, 32 * 7 * 7), Unflatten(UnflattenOptions(1, {32, 7, 7})),
                   GroupNorm(4, 32), ReLU(),
                   ConvTranspose2d(ConvTranspose2dOptions(32, 16, 4).stride(2).padding(1)),
                   GroupNorm(4, 16), ReLU(),
                   ConvTranspose2d(ConvTranspose2dOptions(16, 1, 4).stride(2).padding(1)), Tanh()));
    discriminator = register_module(
        "discriminator",
        Sequential(Conv2d(Conv2dOptions(1, 16, 4).stride(2).padding(1)),
                   LeakyReLU(LeakyReLUOptions().negative_slope(0.2)),
                   Conv2d(Conv2dOptions(16, 32, 4).stride(2).padding(1)), GroupNorm(4, 32),
                   LeakyReLU(LeakyReLUOptions().negative_slope(0.2)), Flatten(),
                   Linear(32 * 7 * 7, 1)));
  }

  torch::nn::Sequential generator = nullptr, discriminator = nullptr;
};

/// Noise is part of the batch: a row has the same numbers in both programs.
struct Batch {
  torch::Tensor images, noise;
  auto tensors() { return std::tie(images, noise); }
};

inline Batch batch_at(const torch::Tensor& images, std::int64_t step, std::int64_t rows) {
  return {rows_at(images, step, rows) * 2 - 1, noise_at(step, {rows, kNoise})};
}

inline torch::Tensor judged(Gan& gan, const torch::Tensor& images, bool real) {
  const torch::Tensor logits = gan.discriminator->forward(images);
  return torch::binary_cross_entropy_with_logits(
      logits, real ? torch::ones_like(logits) : torch::zeros_like(logits));
}

inline torch::Tensor discriminator_loss(Gan& gan, const Batch& batch) {
  const torch::Tensor fake = gan.generator->forward(batch.noise).detach();
  return judged(gan, batch.images, true) + judged(gan, fake, false);
}

inline torch::Tensor generator_loss(Gan& gan, const Batch& batch) {
  return judged(gan, gan.generator->forward(batch.noise), true);
}
