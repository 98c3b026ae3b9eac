// Trains a net from Python on all devices, with Lockstep.
// Run: build/release/examples/scripted/all_devices NET TRAINED [STEPS [DEVICES]]

#include <lockstep/lockstep.h>
#include <lockstep/nn/script.h>

#include "net.h"

int main(int count, char** arguments) {
  if (count < 3) throw std::invalid_argument("no NET and TRAINED: export.py writes NET");
  const int steps = count > 3 ? std::stoi(arguments[3]) : 100;
  const auto devices = lockstep::parse_devices(count > 4 ? arguments[4] : "auto");
  const auto set = lockstep::vision::fashion_mnist(lockstep::vision::Subset::test);
  lockstep::Mirrored<lockstep::Scripted> towers(
      {.method = {.optimizer = lockstep::Adam{.lr = 1e-3}}, .where = {.devices = devices}},
      arguments[1]);
  for (int step = 0; step < steps; ++step) {
    const Batch batch = batch_at(set, step, 64);
    const auto report = towers.step(batch, [](lockstep::Scripted& net, const Batch& shard) {
      return loss_of(net->forward(shard.data), shard.target);
    });
    if (step % 10 == 0) print(step, {{"loss", report.loss}});
  }
  towers.model()->save(arguments[2]);
  print_checksum(*towers.model());
}
