// Times the parts of a sequence-to-sequence model beside the same in LibTorch's words, on one
// thread: forward and backward of the recurrent layers, of the output with its cross entropy in
// chunks of several sizes, and the three products of a linear layer. Prints a line of JSON for
// each: our time over LibTorch's.

#include <lockstep/error.h>
#include <lockstep/kernels/products.h>
#include <lockstep/nn/projection.h>
#include <lockstep/nn/recurrent.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>

namespace {

using namespace lockstep;
using torch::Tensor;
using Action = std::function<void()>;

/// CPU seconds of this thread: other programs count less than in those of the clock.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// The best of some rounds of each action, in turn.
std::vector<double> best_seconds(const std::vector<Action>& actions, int rounds) {
  std::vector<double> best(actions.size(), std::numeric_limits<double>::infinity());
  for (int round = 0; round <= rounds; ++round)
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const double begin = cpu_seconds();
      actions[i]();
      if (round > 0) best[i] = std::min(best[i], cpu_seconds() - begin);
    }
  return best;
}

struct Layers {
  nn::Cell cell;
  std::int64_t hidden;
  std::int64_t rows;
};

/// Two layers over 20 steps, from 256 inputs.
void time_layers(const Layers& shape, int rounds) {
  constexpr std::int64_t kSteps = 20, kInputs = 256;
  const Tensor inputs = torch::randn({kSteps, shape.rows, kInputs}).requires_grad_();
  nn::Recurrent below(shape.cell, kInputs, shape.hidden),
      above(shape.cell, shape.hidden, shape.hidden);
  torch::nn::LSTM lstm(torch::nn::LSTMOptions(kInputs, shape.hidden).num_layers(2));
  torch::nn::GRU gru(torch::nn::GRUOptions(kInputs, shape.hidden).num_layers(2));
  const bool is_lstm = shape.cell == nn::Cell::lstm;
  const auto times =
      best_seconds({[&] { above.forward(below.forward(inputs)[0])[0].sum().backward(); },
                    [&] {
                      const Tensor outputs = is_lstm ? std::get<0>(lstm->forward(inputs))
                                                     : std::get<0>(gru->forward(inputs));
                      outputs.sum().backward();
                    }},
                   rounds);
  std::cout << nlohmann::ordered_json{{"part", is_lstm ? "lstm" : "gru"},
                                      {"hidden", shape.hidden},
                                      {"rows", shape.rows},
                                      {"of_libtorch", times[0] / times[1]}}
            << std::endl;
}

void time_projection(std::int64_t rows, std::int64_t size, std::int64_t vocabulary, int rounds) {
  const Tensor features = torch::randn({rows, size}).requires_grad_();
  const Tensor weight = torch::randn({vocabulary, size}).mul_(0.05).requires_grad_();
  const Tensor bias = torch::zeros({vocabulary}).requires_grad_();
  const Tensor labels = torch::randint(vocabulary, {rows}, torch::kInt64);
  const auto forget = [&] {
    for (Tensor tensor : {features, weight, bias}) tensor.mutable_grad() = Tensor();
  };
  std::vector<std::int64_t> chunks;
  std::vector<Action> actions = {[&] {
    torch::nn::functional::cross_entropy(
        torch::linear(features, weight, bias), labels,
        torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum))
        .backward();
    forget();
  }};
  for (std::int64_t parts = 1; rows / parts >= 32; parts *= 2) {
    chunks.push_back((rows + parts - 1) / parts);
    actions.emplace_back([&, chunk = chunks.back()] {
      nn::projection_cross_entropy(features, weight, bias, labels, {.chunk_rows = chunk})
          .backward();
      forget();
    });
  }
  const auto times = best_seconds(actions, rounds);
  for (std::size_t i = 0; i < chunks.size(); ++i)
    std::cout << nlohmann::ordered_json{{"part", "projection"},
                                        {"rows", rows},
                                        {"size", size},
                                        {"vocabulary", vocabulary},
                                        {"chunk_rows", chunks[i]},
                                        {"of_libtorch", times[i + 1] / times[0]}}
              << std::endl;
}

/// What a linear layer multiplies: forward, for the slope of its input, for that of its weight.
void time_linear(std::int64_t rows, std::int64_t inputs, std::int64_t outputs, int rounds) {
  const torch::NoGradGuard no_gradients;
  const Tensor x = torch::randn({rows, inputs}), weight = torch::randn({outputs, inputs});
  const Tensor slope = torch::randn({rows, outputs});
  const auto times =
      best_seconds({[&] { kernels::product(x, weight.t()); }, [&] { x.mm(weight.t()); },
                    [&] { kernels::product(slope, weight); }, [&] { slope.mm(weight); },
                    [&] { kernels::product(slope.t(), x); }, [&] { slope.t().mm(x); }},
                   rounds);
  std::cout << nlohmann::ordered_json{{"part", "linear"},
                                      {"rows", rows},
                                      {"inputs", inputs},
                                      {"outputs", outputs},
                                      {"forward_of_libtorch", times[0] / times[1]},
                                      {"slope_of_libtorch", times[2] / times[3]},
                                      {"weight_of_libtorch", times[4] / times[5]}}
            << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Times recurrent layers, the projection and products beside LibTorch's; lines of JSON.");
  int rounds = 6;
  app.add_option("--rounds", rounds, "of each part; the best counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
    torch::manual_seed(1);
    torch::set_num_threads(1);
    for (const nn::Cell cell : {nn::Cell::lstm, nn::Cell::gru})
      for (const auto& [hidden, rows] : {std::pair{512, 32}, {512, 16}, {512, 8}, {128, 32}})
        time_layers({cell, hidden, rows}, rounds);
    time_projection(640, 512, 20000, rounds);
    for (const auto& [rows, inputs, outputs] : {std::tuple{4, 256, 256},
                                                {8, 64, 64},
                                                {8, 256, 256},
                                                {16, 64, 256},
                                                {32, 512, 512},
                                                {128, 784, 256},
                                                {32, 4096, 4096},
                                                {640, 512, 512}})
      time_linear(rows, inputs, outputs, rounds);
    return 0;
  } catch (const CLI::Error& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
}
