// Fine-tuning on all devices, with Lockstep: the head first, then everything.
// Run: build/release/examples/fine_tune/all_devices BACKBONE [STEPS [DEVICES]]

#include <lockstep/lockstep.h>

#include "net.h"

int main(int count, char** arguments) {
  if (count < 2) throw std::invalid_argument("no BACKBONE: pretrain writes one");
  const int steps = count > 2 ? std::stoi(arguments[2]) : 100;
  const auto devices = lockstep::parse_devices(count > 3 ? arguments[3] : "auto");
  const auto set = lockstep::vision::fashion_mnist(lockstep::vision::Subset::test);
  lockstep::Mirrored<Net> towers(
      {.method = {.optimizer = lockstep::Adam{.lr = 1e-3}}, .where = {.devices = devices}}, 10);
  Net& net = towers.model();
  initialise(net);
  torch::load(net.backbone, arguments[1]);
  net.backbone->eval();
  towers.set_trainable("backbone.*", false);
  for (int step = 0; step < steps; ++step) {
    if (step == steps / 2) {
      towers.set_trainable("backbone.*", true);
      towers.set_learning_rate(1e-4);
      towers.reset_slots("*");
    }
    const Batch batch = batch_at(set, step, 64);
    const auto report = towers.step(batch, loss_of);
    if (step % 5 == 0) print(step, {{"loss", report.loss}});
  }
  print_checksum(net);
}
