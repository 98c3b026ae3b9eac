// LBFGS on all devices: gradients from Lockstep, the update by LibTorch. Resumes if FOLDER has a
// checkpoint. Run: build/release/examples/own_optimizer/all_devices [STEPS [FOLDER [DEVICES]]]

#include <lockstep/lockstep.h>
#include <filesystem>

#include "net.h"

int main(int count, char** arguments) {
  const int steps = count > 1 ? std::stoi(arguments[1]) : 10;
  const std::filesystem::path folder = count > 2 ? arguments[2] : "";
  const auto devices = lockstep::parse_devices(count > 3 ? arguments[3] : "auto");
  const auto set = lockstep::vision::fashion_mnist(lockstep::vision::Subset::test);
  const Batch batch{set.images.narrow(0, 0, 1000), set.labels.narrow(0, 0, 1000)};
  lockstep::Mirrored<Net> towers({.where = {.devices = devices}});
  Net& net = towers.model();
  initialise(net);
  // A short history: LibTorch cannot save LBFGS before its history is full.
  const auto options = torch::optim::LBFGSOptions(0.5).max_iter(4).history_size(4);
  torch::optim::LBFGS optimizer(net.parameters(), options);
  if (std::filesystem::exists(folder / "optimizer.pt")) {
    towers.load(lockstep::load_checkpoint(folder / "net").state);
    torch::load(optimizer, folder / "optimizer.pt", towers.device());
  }
  for (int step = 0; step < steps; ++step) {
    const auto loss =
        optimizer.step([&] { return torch::tensor(towers.gradients(batch, loss_of).loss); });
    print(step, {{"loss", loss.item<double>()}});
  }
  if (!folder.empty()) {
    lockstep::save_checkpoint(folder / "net", towers.state());
    torch::save(optimizer, folder / "optimizer.pt");
  }
  print_checksum(net);
}
