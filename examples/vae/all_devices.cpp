// A VAE on all devices, with Lockstep.
// Run: build/release/examples/vae/all_devices [STEPS [DEVICES]]

#include <lockstep/lockstep.h>

#include "net.h"

int main(int count, char** arguments) {
  const int steps = count > 1 ? std::stoi(arguments[1]) : 300;
  const auto devices = lockstep::parse_devices(count > 2 ? arguments[2] : "auto");
  const auto set = lockstep::vision::fashion_mnist(lockstep::vision::Subset::test);
  lockstep::Mirrored<Vae> towers(
      {.method = {.optimizer = lockstep::Adam{.lr = 1e-3}}, .where = {.devices = devices}});
  Vae& net = towers.model();
  initialise(net);
  for (int step = 0; step < steps; ++step) {
    const Batch batch = batch_at(set.images, step, 64);
    const auto report = towers.step(batch, [](Vae& replica, const Batch& shard) {
      const auto [reconstruction, kl] = replica.forward(shard);
      const auto rows = static_cast<double>(shard.images.size(0));
      return lockstep::Loss::total(reconstruction + kl).metric("kl", kl, rows);
    });
    if (step % 10 == 0) print(step, {{"loss", report.loss}, {"kl", report.metrics.at("kl")}});
  }
  print_checksum(net);
}
