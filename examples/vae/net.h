#pragma once

// A variational autoencoder for Fashion-MNIST.

#include "common.h"

constexpr std::int64_t kLatent = 16;

/// The noise of the latent variables is part of the batch: a row has the same in both programs.
struct Batch {
  torch::Tensor images, noise;
  auto tensors() { return std::tie(images, noise); }
};

inline Batch batch_at(const torch::Tensor& images, std::int64_t step, std::int64_t rows) {
  return {rows_at(images, step, rows).flatten(1), noise_at(step, {rows, kLatent})};
}

struct Vae : torch::nn::Module {
  struct Sums {
    torch::Tensor reconstruction, kl;
  };

  Vae() {
    using namespace torch::nn;
    encoder = register_module("encoder", Linear(784, 128));
    mean = register_module("mean", Linear(128, kLatent));
    log_variance = register_module("log_variance", Linear(128, kLatent));
    decoder =
        register_module("decoder", Sequential(Linear(kLatent, 128), ReLU(), Linear(128, 784)));
  }

  /// The two parts of the loss, each summed over the rows.
  Sums forward(const Batch& batch) {
    const torch::Tensor hidden = torch::relu(encoder(batch.images));
    const torch::Tensor mu = mean(hidden), log_var = log_variance(hidden);
    const torch::Tensor latent = mu + batch.noise * torch::exp(log_var / 2);
    return {torch::binary_cross_entropy_with_logits(decoder->forward(latent), batch.images, {}, {},
                                                    at::Reduction::Sum),
            -0.5 * torch::sum(1 + log_var - mu.square() - log_var.exp())};
  }

  torch::nn::Linear encoder = nullptr, mean = nullptr, log_variance = nullptr;
  torch::nn::Sequential decoder = nullptr;
};
