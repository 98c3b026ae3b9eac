// A GAN on one device, with LibTorch alone.
// Run: build/release/examples/gan/one_device [STEPS]

#include "net.h"

int main(int count, char** arguments) {
  const int steps = count > 1 ? std::stoi(arguments[1]) : 200;
  const auto set = lockstep::vision::fashion_mnist(lockstep::vision::Subset::test);
  Gan gan;
  initialise(gan);
  const auto adam = torch::optim::AdamOptions(2e-4).betas({0.5, 0.999});
  torch::optim::Adam generator_optimizer(gan.generator->parameters(), adam);
  torch::optim::Adam discriminator_optimizer(gan.discriminator->parameters(), adam);
  for (int step = 0; step < steps; ++step) {
    const Batch batch = batch_at(set.images, step, 32);
    discriminator_optimizer.zero_grad();
    const auto d = discriminator_loss(gan, batch);
    d.backward();
    discriminator_optimizer.step();
    generator_optimizer.zero_grad();
    const auto g = generator_loss(gan, batch);
    g.backward();
    generator_optimizer.step();
    if (step % 10 == 0)
      print(step, {{"discriminator", d.item<double>()}, {"generator", g.item<double>()}});
  }
  print_checksum(gan);
}
