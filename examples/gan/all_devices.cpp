// A GAN on all devices, with Lockstep.
// Run: build/release/examples/gan/all_devices [STEPS [DEVICES]]

#include <lockstep/lockstep.h>

#include "net.h"

int main(int count, char** arguments) {
  const int steps = count > 1 ? std::stoi(arguments[1]) : 200;
  const auto devices = lockstep::parse_devices(count > 2 ? arguments[2] : "auto");
  const auto set = lockstep::vision::fashion_mnist(lockstep::vision::Subset::test);
  const lockstep::Adam adam{.lr = 2e-4, .beta1 = 0.5};
  lockstep::Mirrored<Gan> towers(
      {.method = {.groups = {{"generator.*", adam}, {"discriminator.*", adam}}},
       .where = {.devices = devices}});
  Gan& gan = towers.model();
  initialise(gan);
  for (int step = 0; step < steps; ++step) {
    const Batch batch = batch_at(set.images, step, 32);
    const auto d = towers.step(batch, discriminator_loss, {.update = "discriminator.*"});
    const auto g = towers.step(batch, generator_loss, {.update = "generator.*"});
    if (step % 10 == 0) print(step, {{"discriminator", d.loss}, {"generator", g.loss}});
  }
  print_checksum(gan);
}
