// Trains what tests/oracles/script_trains.py exports, on several numbers of devices. Usage:
// train_script FOLDER. Reads net.pt; writes trained.pt and what it gives, case.safetensors. Exits 1
// with the first difference if the number of devices changes the result.

#include <lockstep/checkpoint.h>
#include <lockstep/nn/script.h>
#include <lockstep/verify.h>

#include <iostream>
#include <string>

namespace {

using namespace lockstep;

using Batch = std::pair<torch::Tensor, torch::Tensor>;

Batch batch_at(int step) {
  auto random = torch::make_generator<torch::CPUGeneratorImpl>(static_cast<std::uint64_t>(step));
  return {torch::randint(20, {18, 7}, random, torch::kInt64),
          torch::randint(5, {18}, random, torch::kInt64)};
}

State train(const std::string& devices, const std::string& folder) {
  Mirrored<Scripted> towers({.method = {.shards = 6, .optimizer = Adam{.lr = 1e-2}, .seed = 3},
                             .where = {.devices = parse_devices(devices)}},
                            folder + "/net.pt");
  for (int step = 0; step < 5; ++step)
    towers.step(batch_at(step), [](Scripted& net, const Batch& shard) {
      return torch::nn::functional::cross_entropy(net->forward(shard.first), shard.second);
    });
  towers.model()->save(folder + "/trained.pt");
  return towers.state();
}

std::string difference(const std::string& some, const std::string& others,
                       const std::string& folder) {
  return first_difference(train(some, folder), train(others, folder));
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: train_script FOLDER\n";
    return 2;
  }
  const std::string folder = arguments[1];
  const std::string found =
      difference("sim:0", "sim:0-1", folder) + difference("cpu:0", "cpu:0-2", folder);
  if (!found.empty()) {
    std::cerr << found << "\n";
    return 1;
  }
  Scripted trained(folder + "/trained.pt");
  trained->eval();
  const torch::NoGradGuard no_gradients;
  const torch::Tensor tokens = batch_at(9).first;
  save_tensors(folder + "/case.safetensors",
               {{"tokens", tokens}, {"logits", trained->forward(tokens)}});
}
