#include "ports_models.h"

#include <array>
#include <sstream>
#include <string>
#include <utility>

namespace bench {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

/// What comes in plus what the layers make of it.
struct ResidualImpl : nn::Module {
  explicit ResidualImpl(Sequential inner, bool ends_in_relu = false, Sequential way = nullptr)
      : layers(register_module("layers", std::move(inner))), relu(ends_in_relu) {
    if (way) shortcut = register_module("shortcut", std::move(way));
  }
  Tensor forward(const Tensor& x) {
    const Tensor sum = layers->forward(x) + (shortcut ? shortcut->forward(x) : x);
    return relu ? sum.relu() : sum;
  }
  Sequential layers, shortcut = nullptr;
  bool relu;
};
TORCH_MODULE(Residual);

nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t size, std::int64_t stride,
                       bool bias = false) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, size).stride(stride).padding(size / 2).bias(bias));
}

void add_dark(Sequential& to, std::int64_t in, std::int64_t out, std::int64_t size,
              std::int64_t stride) {
  to->push_back(convolution(in, out, size, stride));
  to->push_back(nn::BatchNorm2d(out));
  to->push_back(nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.1)));
}

nn::InstanceNorm2d instance_norm(std::int64_t channels) {
  return nn::InstanceNorm2d(nn::InstanceNorm2dOptions(channels));
}

Sequential generator_of_pictures() {
  constexpr std::int64_t kWidth = 32;
  Sequential net(convolution(3, kWidth, 7, 1, true), instance_norm(kWidth), nn::ReLU(),
                 convolution(kWidth, 2 * kWidth, 3, 2, true), instance_norm(2 * kWidth), nn::ReLU(),
                 convolution(2 * kWidth, 4 * kWidth, 3, 2, true), instance_norm(4 * kWidth),
                 nn::ReLU());
  for (int block = 0; block < 3; ++block)
    net->push_back(Residual(Sequential(
        convolution(4 * kWidth, 4 * kWidth, 3, 1, true), instance_norm(4 * kWidth), nn::ReLU(),
        convolution(4 * kWidth, 4 * kWidth, 3, 1, true), instance_norm(4 * kWidth))));
  for (const std::int64_t width : {4 * kWidth, 2 * kWidth}) {
    net->push_back(nn::ConvTranspose2d(
        nn::ConvTranspose2dOptions(width, width / 2, 3).stride(2).padding(1).output_padding(1)));
    net->push_back(instance_norm(width / 2));
    net->push_back(nn::ReLU());
  }
  net->push_back(convolution(kWidth, 3, 7, 1, true));
  net->push_back(nn::Tanh());
  return net;
}

Sequential discriminator_of_patches() {
  Sequential net;
  std::int64_t in = 3;
  for (const std::int64_t out : {32, 64, 128}) {
    net->push_back(nn::Conv2d(nn::Conv2dOptions(in, out, 4).stride(2).padding(1)));
    if (in > 3) net->push_back(instance_norm(out));
    net->push_back(nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2)));
    in = out;
  }
  net->push_back(nn::Conv2d(nn::Conv2dOptions(in, 1, 4).padding(1)));
  return net;
}

/// Mean squared distance to what a discriminator should say.
Tensor should_be(double wanted, const Tensor& said) { return (said - wanted).square().mean(); }

constexpr std::array<std::int64_t, 4> kStageWidths = {64, 128, 256, 512};

Sequential normed(std::int64_t in, std::int64_t out, std::int64_t size, std::int64_t stride) {
  return Sequential(convolution(in, out, size, stride), nn::BatchNorm2d(out));
}

Residual block(std::int64_t in, std::int64_t out, std::int64_t stride) {
  Sequential layers(convolution(in, out, 3, stride), nn::BatchNorm2d(out), nn::ReLU(),
                    convolution(out, out, 3, 1), nn::BatchNorm2d(out));
  const bool same = stride == 1 && in == out;
  return Residual(layers, true, same ? Sequential(nullptr) : normed(in, out, 1, stride));
}

Sequential resnet18() {
  Sequential net(convolution(3, 64, 7, 2), nn::BatchNorm2d(64), nn::ReLU(),
                 nn::MaxPool2d(nn::MaxPool2dOptions(3).stride(2).padding(1)));
  std::int64_t in = 64;
  for (const std::int64_t width : kStageWidths)
    for (int i = 0; i < 2; ++i) {
      net->push_back(block(in, width, i == 0 && width > 64 ? 2 : 1));
      in = width;
    }
  net->push_back(nn::AdaptiveAvgPool2d(1));
  net->push_back(nn::Flatten());
  return net;
}

/// ResNet-18 without its last layer, in TorchScript.
torch::jit::Module script_of_resnet18() {
  torch::jit::Module net("ResNet18");
  std::ostringstream code;
  code << "def forward(self, x: Tensor):\n";
  int layers = 0;
  const auto layer = [&](char to, char from, std::int64_t in, std::int64_t out, std::int64_t size,
                         std::int64_t stride) {
    const int n = layers++;
    const auto name = [n](char kind) { return kind + std::to_string(n); };
    net.register_parameter(name('w'), convolution(in, out, size, stride)->weight.detach(), false);
    net.register_parameter(name('g'), torch::ones(out).requires_grad_(false), false);
    net.register_parameter(name('b'), torch::zeros(out).requires_grad_(false), false);
    net.register_buffer(name('m'), torch::zeros(out));
    net.register_buffer(name('v'), torch::ones(out));
    code << "  " << to << " = torch.conv2d(" << from << ", self.w" << n << ", None, [" << stride
         << ", " << stride << "], [" << size / 2 << ", " << size / 2 << "], [1, 1], 1)\n  " << to
         << " = torch.batch_norm(" << to << ", self.g" << n << ", self.b" << n << ", self.m" << n
         << ", self.v" << n << ", False, 0.1, 1e-5, True)\n";
  };
  layer('x', 'x', 3, 64, 7, 2);
  code << "  x = torch.max_pool2d(torch.relu(x), [3, 3], [2, 2], [1, 1], [1, 1], False)\n";
  std::int64_t in = 64;
  for (const std::int64_t width : kStageWidths)
    for (int i = 0; i < 2; ++i) {
      const std::int64_t stride = i == 0 && width > 64 ? 2 : 1;
      layer('y', 'x', in, width, 3, stride);
      code << "  y = torch.relu(y)\n";
      layer('y', 'y', width, width, 3, 1);
      if (stride != 1) layer('x', 'x', in, width, 1, stride);
      code << "  x = torch.relu(x + y)\n";
      in = width;
    }
  code << "  return torch.flatten(torch.adaptive_avg_pool2d(x, [1, 1]), 1)\n";
  net.define(code.str());
  return net;
}

Tensor labels(std::int64_t rows, std::int64_t classes) {
  return torch::randint(classes, {rows}, torch::kInt64);
}

}  // namespace

Batch Line::batch() { return {torch::randn({64, 1}), torch::randn({64, 1})}; }
Tensor Line::loss(const Batch& batch) {
  return torch::mse_loss(line(std::get<0>(batch)), std::get<1>(batch));
}

Batch Regression::batch() { return {torch::randn({64, 13}), torch::randn({64, 1})}; }
Tensor Regression::loss(const Batch& batch) {
  return torch::mse_loss(second(first(std::get<0>(batch)).relu()), std::get<1>(batch));
}

Darknet::Darknet() {
  add_dark(layers, 3, 32, 3, 1);
  std::int64_t in = 32;
  for (const auto& [out, blocks] : {std::pair{64, 1}, {128, 1}, {256, 2}, {512, 2}, {1024, 1}}) {
    add_dark(layers, in, out, 3, 2);
    for (int i = 0; i < blocks; ++i) {
      Sequential inner;
      add_dark(inner, out, out / 2, 1, 1);
      add_dark(inner, out / 2, out, 3, 1);
      layers->push_back(Residual(inner));
    }
    in = out;
  }
  layers->push_back(convolution(in, 3 * (5 + 20), 1, 1, true));
  register_module("layers", layers);
}
Batch Darknet::batch() { return {torch::rand({4, 3, 256, 256}), torch::rand({4, 75, 8, 8})}; }
Tensor Darknet::loss(const Batch& batch) {
  return torch::mse_loss(layers->forward(std::get<0>(batch)).sigmoid(), std::get<1>(batch));
}

CycleGan::CycleGan() {
  for (const char* name : {"ab", "ba"})
    generators.push_back(register_module(name, generator_of_pictures()));
  for (const char* name : {"a", "b"})
    discriminators.push_back(register_module(name, discriminator_of_patches()));
}
Batch CycleGan::batch() {
  return {torch::rand({4, 3, 128, 128}) * 2 - 1, torch::rand({4, 3, 128, 128}) * 2 - 1};
}
Tensor CycleGan::loss(const Batch& batch) {
  const auto& [a, b] = batch;
  auto &ab = generators[0], &ba = generators[1];
  auto &is_a = discriminators[0], &is_b = discriminators[1];
  const Tensor fake_b = ab->forward(a), fake_a = ba->forward(b);
  Tensor loss = should_be(1, is_b->forward(fake_b)) + should_be(1, is_a->forward(fake_a));
  loss =
      loss + 10 * ((ba->forward(fake_b) - a).abs().mean() + (ab->forward(fake_a) - b).abs().mean());
  loss = loss + should_be(1, is_a->forward(a)) + should_be(0, is_a->forward(fake_a.detach()));
  return loss + should_be(1, is_b->forward(b)) + should_be(0, is_b->forward(fake_b.detach()));
}

Dcgan::Dcgan()
    : generator(nn::ConvTranspose2d(nn::ConvTranspose2dOptions(100, 256, 4).bias(false)),
                nn::BatchNorm2d(256), nn::ReLU(),
                nn::ConvTranspose2d(
                    nn::ConvTranspose2dOptions(256, 128, 3).stride(2).padding(1).bias(false)),
                nn::BatchNorm2d(128), nn::ReLU(),
                nn::ConvTranspose2d(
                    nn::ConvTranspose2dOptions(128, 64, 4).stride(2).padding(1).bias(false)),
                nn::BatchNorm2d(64), nn::ReLU(),
                nn::ConvTranspose2d(
                    nn::ConvTranspose2dOptions(64, 1, 4).stride(2).padding(1).bias(false)),
                nn::Tanh()) {
  register_module("generator", generator);
  std::int64_t in = 1;
  for (const std::int64_t out : {64, 128, 256}) {
    discriminator->push_back(
        nn::Conv2d(nn::Conv2dOptions(in, out, 4).stride(2).padding(1).bias(false)));
    if (in > 1) discriminator->push_back(nn::BatchNorm2d(out));
    discriminator->push_back(nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2)));
    in = out;
  }
  discriminator->push_back(nn::Conv2d(nn::Conv2dOptions(256, 1, 3).bias(false)));
  register_module("discriminator", discriminator);
}
Batch Dcgan::batch() { return {torch::randn({64, 100, 1, 1}), torch::rand({64, 1, 28, 28})}; }
Tensor Dcgan::loss(const Batch& batch) {
  const auto said = [this](const Tensor& pictures, double wanted) {
    const Tensor logits = discriminator->forward(pictures);
    return torch::binary_cross_entropy_with_logits(logits, torch::full_like(logits, wanted));
  };
  const Tensor fake = generator->forward(std::get<0>(batch));
  return said(std::get<1>(batch), 1) + said(fake.detach(), 0) + said(fake, 1);
}

Transfer::Transfer() : backbone(register_module("backbone", resnet18())) {
  for (Tensor& parameter : backbone->parameters()) parameter.requires_grad_(false);
}
Batch Transfer::batch() { return {torch::rand({16, 3, 128, 128}), labels(16, 10)}; }
Tensor Transfer::loss(const Batch& batch) {
  backbone->eval();
  return torch::cross_entropy_loss(head(backbone->forward(std::get<0>(batch))), std::get<1>(batch));
}

ScriptTransfer::ScriptTransfer() : backbone(script_of_resnet18()) {}
Tensor ScriptTransfer::loss(const Batch& batch) {
  const Tensor features = backbone.forward({std::get<0>(batch)}).toTensor();
  return torch::cross_entropy_loss(head(features), std::get<1>(batch));
}

ScriptTransferPort::ScriptTransferPort()
    : backbone(register_module(
          "backbone", std::make_shared<lockstep::nn::ScriptModule>(script_of_resnet18()))) {}
Tensor ScriptTransferPort::loss(const Batch& batch) {
  return torch::cross_entropy_loss(head(backbone->forward(std::get<0>(batch))), std::get<1>(batch));
}

Batch Language::batch() {
  const Tensor text = torch::randint(kWords, {20, 31}, torch::kInt64);
  return {text.slice(1, 0, 30), text.slice(1, 1, 31)};
}
Tensor Language::loss(const Batch& batch) {
  const auto [states, last] = lstm(words(std::get<0>(batch)));
  return torch::cross_entropy_loss(logits(states.flatten(0, 1)), std::get<1>(batch).flatten());
}

}  // namespace bench
