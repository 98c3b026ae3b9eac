// Trains on one device, with LibTorch alone. Run: build/release/examples/classify/one_device
// Expected: an accuracy above 0.80 after 300 steps, in well under a minute.

#include <iostream>

#include "net.h"

int main(int count, char** arguments) {
  const int steps = count > 1 ? std::stoi(arguments[1]) : 300;
  const auto train = lockstep::vision::fashion_mnist(lockstep::vision::Subset::train);
  const auto test = lockstep::vision::fashion_mnist(lockstep::vision::Subset::test);
  Net net;
  torch::optim::Adam optimizer(net.parameters(), torch::optim::AdamOptions(1e-3));
  for (int step = 0; step < steps; ++step) {
    const Batch batch = batch_at(train, step, 64);
    optimizer.zero_grad();
    const auto loss = torch::nll_loss(net.forward(batch.data), batch.target);
    loss.backward();
    optimizer.step();
  }
  net.eval();
  const double result = accuracy(net.forward(test.images), test.labels);
  std::cout << "accuracy " << result << "\nchecksum " << checksum(net) << '\n';
  return result > 0.80 ? 0 : 1;
}
