// Times a sequence-to-sequence model: tokens/s of training on N devices, and of writing texts with
// greedy and beam search on one. Random tokens of one length, so that only the speed counts.

#include <lockstep/error.h>
#include <lockstep/mirrored.h>
#include <lockstep/nn/seq2seq.h>
#include <lockstep/text/buckets.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

namespace {

using namespace lockstep;
using Clock = std::chrono::steady_clock;

struct Arguments {
  int devices = 2;
  double seconds = 5;
  std::int64_t rows = 64;
  std::int64_t length = 20;
  std::int64_t vocabulary = 8000;
  std::int64_t hidden = 512;
  std::int64_t layers = 2;
  int beam = 5;
};

/// Calls `action` for so many seconds, after once that does not count; returns calls a second.
template <class Action>
double rate(double seconds, const Action& action) {
  action();
  const auto begin = Clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  int count = 0;
  while (count < 2 || passed() < seconds) {
    action();
    ++count;
  }
  return count / passed();
}

text::SequenceBatch random_batch(const Arguments& arguments) {
  const auto tokens = [&](std::int64_t length) {
    return torch::randint(text::kFirstOwnToken, arguments.vocabulary, {arguments.rows, length},
                          torch::kInt64);
  };
  return {.source = tokens(arguments.length),
          .lengths = torch::full({arguments.rows}, arguments.length, torch::kInt64),
          .target = tokens(arguments.length + 1)};
}

/// Tokens that are learned a second: those of the targets.
double training_rate(const Arguments& arguments, const nn::Seq2SeqOptions& shape,
                     const text::SequenceBatch& batch) {
  Mirrored<nn::Seq2Seq> towers({.method = {.shards = arguments.devices,
                                           .optimizer = Adam{.lr = 1e-3},
                                           .clip = {.global_norm = 5}},
                                .where = {.devices = cpu_devices(arguments.devices)}},
                               shape);
  const auto tokens = static_cast<double>(arguments.rows * arguments.length);
  return tokens * rate(arguments.seconds, [&] {
           towers.step(batch, [](nn::Seq2Seq& model, const text::SequenceBatch& shard) {
             return nn::sequence_loss(model, shard);
           });
         });
}

/// Tokens that are written a second, on one thread.
double writing_rate(const Arguments& arguments, nn::Seq2Seq& model,
                    const text::SequenceBatch& batch, int beam) {
  double tokens = 0;
  int calls = 0;
  const double a_second = rate(arguments.seconds, [&] {
    const auto writing = nn::token_model(model, batch.source, batch.lengths);
    const auto found = text::beam_search(
        *writing, {.width = beam, .max_length = arguments.length, .length_penalty = 0});
    for (const auto& best : found) tokens += static_cast<double>(best.front().tokens.size());
    ++calls;
  });
  return tokens / calls * a_second;
}

void run(const Arguments& arguments) {
  torch::manual_seed(1);
  const nn::Seq2SeqOptions shape{
      .vocabulary = arguments.vocabulary, .hidden = arguments.hidden, .layers = arguments.layers};
  const text::SequenceBatch batch = random_batch(arguments);
  nlohmann::ordered_json result = {
      {"devices", arguments.devices}, {"rows", arguments.rows},
      {"length", arguments.length},   {"vocabulary", arguments.vocabulary},
      {"hidden", arguments.hidden},   {"layers", arguments.layers}};
  result["trained_tokens_per_s"] = training_rate(arguments, shape, batch);
  torch::set_num_threads(1);
  nn::Seq2Seq model(shape);
  model.eval();
  result["greedy_tokens_per_s"] = writing_rate(arguments, model, batch, 1);
  result["beam_tokens_per_s"] = writing_rate(arguments, model, batch, arguments.beam);
  result["beam"] = arguments.beam;
  std::cout << result.dump() << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times training and decoding of a seq2seq model; prints one line of JSON.");
  app.option_defaults()->always_capture_default();
  Arguments arguments;
  const auto at_least_one = CLI::Range(std::int64_t{1}, std::int64_t{1} << 30);
  app.add_option("--devices", arguments.devices, "towers to train on")->check(CLI::Range(1, 1024));
  app.add_option("--seconds", arguments.seconds, "length of each of the three measurements")
      ->check(CLI::Range(0.0, 3600.0));
  app.add_option("--rows", arguments.rows, "pairs of a batch")->check(at_least_one);
  app.add_option("--length", arguments.length, "tokens of each text")->check(at_least_one);
  app.add_option("--vocabulary", arguments.vocabulary, "tokens there are")
      ->check(CLI::Range(std::int64_t{10}, std::int64_t{1} << 30));
  app.add_option("--hidden", arguments.hidden, "units of a layer")->check(at_least_one);
  app.add_option("--layers", arguments.layers, "of encoder and decoder")->check(at_least_one);
  app.add_option("--beam", arguments.beam, "width of the beam search")->check(CLI::Range(1, 1024));
  try {
    app.parse(argc, argv);
    run(arguments);
    return 0;
  } catch (const CLI::Error& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const ConfigError& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
