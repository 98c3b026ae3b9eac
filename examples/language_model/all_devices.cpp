// A language model on all devices, with Lockstep.
// Run: build/release/examples/language_model/all_devices [STEPS [TEXT [DEVICES]]]

#include <lockstep/lockstep.h>

#include "net.h"

int main(int count, char** arguments) {
  const int steps = count > 1 ? std::stoi(arguments[1]) : 200;
  const Text text(count > 2 ? arguments[2] : "LICENSE");
  const auto devices = lockstep::parse_devices(count > 3 ? arguments[3] : "auto");
  lockstep::Mirrored<Net> towers(
      {.method = {.optimizer = lockstep::Sgd{.lr = 10}, .clip = {.global_norm = 0.25}},
       .where = {.devices = devices}});
  Net& net = towers.model();
  initialise(net);
  State state;
  for (int step = 0; step < steps; ++step) {
    if (text.begins_at(step)) state = Net::initial_state();
    const auto [input, target] = text.batch_at(step);
    const auto report = towers.step(
        std::tuple(input, target, lockstep::along(1, state)), [](Net& replica, const auto& shard) {
          const auto& [characters, following, before] = shard;
          const auto [logits, next] = replica.forward(characters, before.value);
          return lockstep::Loss::mean(loss_of(logits, following))
              .output("h", std::get<0>(next), 1)
              .output("c", std::get<1>(next), 1);
        });
    state = {report.outputs.at("h"), report.outputs.at("c")};
    if (step % 10 == 0) print(step, {{"loss", report.loss}});
  }
  print_checksum(net);
}
