// Fine-tuning on one device, with LibTorch alone: the head first, then everything.
// Run: build/release/examples/fine_tune/one_device BACKBONE [STEPS]

#include "net.h"

int main(int count, char** arguments) {
  if (count < 2) throw std::invalid_argument("no BACKBONE: pretrain writes one");
  const int steps = count > 2 ? std::stoi(arguments[2]) : 100;
  const auto set = lockstep::vision::fashion_mnist(lockstep::vision::Subset::test);
  Net net(10);
  initialise(net);
  torch::load(net.backbone, arguments[1]);
  net.backbone->eval();
  for (auto& parameter : net.backbone->parameters()) parameter.set_requires_grad(false);
  auto optimizer = std::make_unique<torch::optim::Adam>(net.head->parameters(), 1e-3);
  for (int step = 0; step < steps; ++step) {
    if (step == steps / 2) {
      for (auto& parameter : net.backbone->parameters()) parameter.set_requires_grad(true);
      optimizer = std::make_unique<torch::optim::Adam>(net.parameters(), 1e-4);
    }
    const Batch batch = batch_at(set, step, 64);
    optimizer->zero_grad();
    const auto loss = loss_of(net, batch);
    loss.backward();
    optimizer->step();
    if (step % 5 == 0) print(step, {{"loss", loss.item<double>()}});
  }
  print_checksum(net);
}
