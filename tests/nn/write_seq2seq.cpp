// Writes models, inputs and logits for tests/oracles/seq2seq_logits.py. Usage: write_seq2seq FOLDER

#include <lockstep/checkpoint.h>
#include <lockstep/nn/seq2seq.h>

#include <iostream>
#include <string>

namespace {

using namespace lockstep;
using namespace lockstep::nn;
using namespace lockstep::text;

constexpr std::int64_t kVocabulary = 50, kRows = 6, kLongest = 9;

void write(const std::string& stem, const Seq2SeqOptions& options) {
  torch::manual_seed(7);
  Seq2Seq model(options);
  std::vector<NamedTensor> weights;
  for (const auto& parameter : model.named_parameters()) {
    torch::nn::init::uniform_(parameter.value(), -0.3, 0.3);
    weights.push_back({parameter.key(), parameter->detach()});
  }
  save_tensors(stem + ".safetensors", weights);

  const torch::NoGradGuard no_gradients;
  const auto lengths = torch::randint(1, kLongest + 1, {kRows}, torch::kInt64);
  const auto draw = [] {
    return torch::randint(kFirstOwnToken, kVocabulary, {kRows, kLongest}, torch::kInt64);
  };
  const auto source = draw().masked_fill(torch::arange(kLongest) >= lengths.unsqueeze(1), kPad);
  const auto target = draw();
  const auto logits = model.logits(model.decode(model.encode(source, lengths), target));
  save_tensors(stem + ".case.safetensors", {{"lengths", lengths},
                                            {"logits", logits.contiguous()},
                                            {"source", source},
                                            {"target", target}});
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: write_seq2seq FOLDER\n";
    return 2;
  }
  const std::string folder = arguments[1];
  write(folder + "/lstm_general", {.vocabulary = kVocabulary,
                                   .embedding = 16,
                                   .hidden = 24,
                                   .layers = 2,
                                   .bidirectional = true});
  write(folder + "/gru_bahdanau", {.vocabulary = kVocabulary,
                                   .embedding = 16,
                                   .hidden = 24,
                                   .layers = 1,
                                   .cell = Cell::gru,
                                   .attention = Attention::bahdanau,
                                   .input_feeding = true,
                                   .tied = true});
}
