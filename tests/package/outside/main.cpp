#include <lockstep/lockstep.h>

#include <iostream>

struct Net : torch::nn::Module {
  Net() { line = register_module("line", torch::nn::Linear(1, 1)); }
  torch::nn::Linear line = nullptr;
};

int main() {
  lockstep::Mirrored<Net> towers({.method = {.optimizer = lockstep::Adam{.lr = 0.1}},
                                  .where = {.devices = lockstep::cpu_devices(2)}});
  const auto x = torch::linspace(-1, 1, 16).view({16, 1});
  double loss = 0;
  for (int step = 0; step < 200; ++step)
    loss = towers
               .step(std::pair(x, 3 * x + 1),
                     [](Net& net, const auto& shard) {
                       return torch::mse_loss(net.line(shard.first), shard.second);
                     })
               .loss;
  std::cout << "loss " << loss << '\n';
  return loss < 1e-2 ? 0 : 1;
}
