// Writes the backbone that both programs fine-tune.
// Run: build/release/examples/fine_tune/pretrain BACKBONE [STEPS]

#include <iostream>

#include "net.h"

int main(int count, char** arguments) {
  if (count < 2) {
    std::cerr << "usage: pretrain BACKBONE [STEPS]\n";
    return 2;
  }
  const int steps = count > 2 ? std::stoi(arguments[2]) : 100;
  auto set = lockstep::vision::fashion_mnist(lockstep::vision::Subset::train);
  const auto few = (set.labels < 5).nonzero().view(-1);
  set = {set.images.index_select(0, few), set.labels.index_select(0, few)};
  Net net(5);
  initialise(net);
  torch::optim::Adam optimizer(net.parameters(), torch::optim::AdamOptions(1e-3));
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    loss_of(net, batch_at(set, step, 64)).backward();
    optimizer.step();
  }
  torch::save(net.backbone, arguments[1]);
}
