// A contrastive loss on all devices, with Lockstep.
// Run: build/release/examples/contrastive/all_devices [STEPS [DEVICES]]

#include <lockstep/lockstep.h>

#include "net.h"

int main(int count, char** arguments) {
  const int steps = count > 1 ? std::stoi(arguments[1]) : 100;
  const auto devices = lockstep::parse_devices(count > 2 ? arguments[2] : "auto");
  const auto set = lockstep::vision::fashion_mnist(lockstep::vision::Subset::test);
  lockstep::Mirrored<Net> towers(
      {.method = {.optimizer = lockstep::Adam{.lr = 1e-3}}, .where = {.devices = devices}});
  Net& net = towers.model();
  initialise(net);
  for (int step = 0; step < steps; ++step) {
    const Views views = views_at(set.images, step, 64);
    const auto report = towers.step(views, projections, nt_xent);
    if (step % 10 == 0) print(step, {{"loss", report.loss}});
  }
  print_checksum(net);
}
