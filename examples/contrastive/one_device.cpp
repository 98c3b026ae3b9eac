// A contrastive loss on one device, with LibTorch alone.
// Run: build/release/examples/contrastive/one_device [STEPS]

#include "net.h"

int main(int count, char** arguments) {
  const int steps = count > 1 ? std::stoi(arguments[1]) : 100;
  const auto set = lockstep::vision::fashion_mnist(lockstep::vision::Subset::test);
  Net net;
  initialise(net);
  torch::optim::Adam optimizer(net.parameters(), torch::optim::AdamOptions(1e-3));
  for (int step = 0; step < steps; ++step) {
    const Views views = views_at(set.images, step, 64);
    optimizer.zero_grad();
    const auto loss = nt_xent(projections(net, views));
    loss.backward();
    optimizer.step();
    if (step % 10 == 0) print(step, {{"loss", loss.item<double>()}});
  }
  print_checksum(net);
}
