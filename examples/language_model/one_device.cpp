// A language model on one device, with LibTorch alone.
// Run: build/release/examples/language_model/one_device [STEPS [TEXT]]

#include "net.h"

int main(int count, char** arguments) {
  const int steps = count > 1 ? std::stoi(arguments[1]) : 200;
  const Text text(count > 2 ? arguments[2] : "LICENSE");
  Net net;
  initialise(net);
  torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(10));
  State state;
  for (int step = 0; step < steps; ++step) {
    if (text.begins_at(step)) state = Net::initial_state();
    const auto [input, target] = text.batch_at(step);
    optimizer.zero_grad();
    const auto [logits, next] = net.forward(input, state);
    const auto loss = loss_of(logits, target);
    loss.backward();
    torch::nn::utils::clip_grad_norm_(net.parameters(), 0.25);
    optimizer.step();
    state = {std::get<0>(next).detach(), std::get<1>(next).detach()};
    if (step % 10 == 0) print(step, {{"loss", loss.item<double>()}});
  }
  print_checksum(net);
}
