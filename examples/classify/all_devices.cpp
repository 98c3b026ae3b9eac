// Trains on all devices, with Lockstep. Run: build/release/examples/classify/all_devices
// Expected: an accuracy above 0.80 after 300 steps, in well under a minute.

#include <lockstep/lockstep.h>
#include <iostream>

#include "net.h"

int main(int count, char** arguments) {
  const int steps = count > 1 ? std::stoi(arguments[1]) : 300;
  const auto train = lockstep::vision::fashion_mnist(lockstep::vision::Subset::train);
  const auto test = lockstep::vision::fashion_mnist(lockstep::vision::Subset::test);
  const auto devices = lockstep::parse_devices(count > 2 ? arguments[2] : "auto");
  lockstep::Mirrored<Net> towers(
      {.method = {.optimizer = lockstep::Adam{.lr = 1e-3}}, .where = {.devices = devices}});
  for (int step = 0; step < steps; ++step) {
    const Batch batch = batch_at(train, step, 64);
    towers.step(batch, [](Net& net, const Batch& shard) {
      return torch::nll_loss(net.forward(shard.data), shard.target);
    });
  }
  Net& net = towers.model();
  net.eval();
  const double result = accuracy(net.forward(test.images.to(towers.device())), test.labels);
  std::cout << "accuracy " << result << "\nchecksum " << checksum(net) << '\n';
  return result > 0.80 ? 0 : 1;
}
