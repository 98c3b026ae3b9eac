// A VAE on one device, with LibTorch alone.
// Run: build/release/examples/vae/one_device [STEPS]

#include "net.h"

int main(int count, char** arguments) {
  const int steps = count > 1 ? std::stoi(arguments[1]) : 300;
  const auto set = lockstep::vision::fashion_mnist(lockstep::vision::Subset::test);
  Vae net;
  initialise(net);
  torch::optim::Adam optimizer(net.parameters(), torch::optim::AdamOptions(1e-3));
  for (int step = 0; step < steps; ++step) {
    const Batch batch = batch_at(set.images, step, 64);
    optimizer.zero_grad();
    const auto [reconstruction, kl] = net.forward(batch);
    const auto loss = reconstruction + kl;
    loss.backward();
    optimizer.step();
    if (step % 10 == 0)
      print(step, {{"loss", loss.item<double>()}, {"kl", kl.item<double>() / 64}});
  }
  print_checksum(net);
}
