// Trains a net from Python on one device, with LibTorch alone.
// Run: build/release/examples/scripted/one_device NET TRAINED [STEPS]

#include <torch/script.h>

#include "net.h"

int main(int count, char** arguments) {
  if (count < 3) throw std::invalid_argument("no NET and TRAINED: export.py writes NET");
  const int steps = count > 3 ? std::stoi(arguments[3]) : 100;
  const auto set = lockstep::vision::fashion_mnist(lockstep::vision::Subset::test);
  torch::jit::Module net = torch::jit::load(arguments[1]);
  std::vector<torch::Tensor> parameters;
  for (const auto& parameter : net.parameters()) parameters.push_back(parameter);
  torch::optim::Adam optimizer(parameters, torch::optim::AdamOptions(1e-3));
  for (int step = 0; step < steps; ++step) {
    const Batch batch = batch_at(set, step, 64);
    optimizer.zero_grad();
    const auto loss = loss_of(net.forward({batch.data}).toTensor(), batch.target);
    loss.backward();
    optimizer.step();
    if (step % 10 == 0) print(step, {{"loss", loss.item<double>()}});
  }
  net.save(arguments[2]);
}
