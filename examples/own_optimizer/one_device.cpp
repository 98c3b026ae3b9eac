// LBFGS on one device, with LibTorch alone. Resumes if FOLDER has a checkpoint.
// Run: build/release/examples/own_optimizer/one_device [STEPS [FOLDER]]

#include <filesystem>

#include "net.h"

int main(int count, char** arguments) {
  const int steps = count > 1 ? std::stoi(arguments[1]) : 10;
  const std::filesystem::path folder = count > 2 ? arguments[2] : "";
  const auto set = lockstep::vision::fashion_mnist(lockstep::vision::Subset::test);
  const Batch batch{set.images.narrow(0, 0, 1000), set.labels.narrow(0, 0, 1000)};
  Net net;
  initialise(net);
  // A short history: LibTorch cannot save LBFGS before its history is full.
  const auto options = torch::optim::LBFGSOptions(0.5).max_iter(4).history_size(4);
  torch::optim::LBFGS optimizer(net.parameters(), options);
  if (std::filesystem::exists(folder / "optimizer.pt")) {
    torch::serialize::InputArchive archive;
    archive.load_from(folder / "net.pt");
    net.load(archive);
    torch::load(optimizer, folder / "optimizer.pt");
  }
  for (int step = 0; step < steps; ++step) {
    const auto loss = optimizer.step([&] {
      optimizer.zero_grad();
      const auto value = loss_of(net, batch);
      value.backward();
      return value;
    });
    print(step, {{"loss", loss.item<double>()}});
  }
  if (!folder.empty()) {
    torch::serialize::OutputArchive archive;
    net.save(archive);
    archive.save_to(folder / "net.pt");
    torch::save(optimizer, folder / "optimizer.pt");
  }
  print_checksum(net);
}
