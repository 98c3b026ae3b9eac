// The model learns: it reverses sequences that it has not seen.

#include <gtest/gtest.h>
#include <lockstep/lockstep.h>
#include <lockstep/nn/seq2seq.h>

#include <algorithm>
#include <cmath>

namespace seq2seq_learns_test {

using namespace lockstep;
using namespace lockstep::nn;
using namespace lockstep::text;
using torch::Tensor;

constexpr std::int64_t kSymbols = 20, kShortest = 5, kLongest = 12;

/// Batch `number` of random sequences, of 5 to 12 symbols, and their reversals.
SequenceBatch reversals(std::uint64_t number, std::int64_t rows) {
  auto generator = torch::make_generator<torch::CPUGeneratorImpl>(number);
  SequenceBatch batch;
  batch.lengths = torch::randint(kShortest, kLongest + 1, {rows}, generator, torch::kInt64);
  const Tensor tokens = torch::randint(kFirstOwnToken, kFirstOwnToken + kSymbols, {rows, kLongest},
                                       generator, torch::kInt64);
  const Tensor at = torch::arange(kLongest), lengths = batch.lengths.unsqueeze(1);
  batch.source = tokens.masked_fill(at >= lengths, kPad);
  const Tensor back = batch.source.gather(1, (lengths - 1 - at).clamp_min(0));
  batch.target = torch::full({rows, kLongest + 2}, kPad, torch::kInt64);
  batch.target.select(1, 0).fill_(kBegin);
  batch.target.slice(1, 1, kLongest + 1).copy_(back.masked_fill(at >= lengths, kPad));
  batch.target.scatter_(1, lengths + 1, kEnd);
  return batch;
}

/// How many rows are written exactly.
double exact(Seq2Seq& model, const SequenceBatch& batch) {
  const auto writing = token_model(model, batch.source, batch.lengths);
  const auto found = greedy_search(*writing, kLongest + 2);
  double count = 0;
  for (std::int64_t row = 0; row < batch.source.size(0); ++row) {
    const Hypothesis& one = found[static_cast<std::size_t>(row)];
    const Tensor wanted =
        batch.target[row].slice(0, 1, batch.lengths[row].item<std::int64_t>() + 1);
    const Tensor tokens = torch::tensor(one.tokens, torch::kInt64);
    count += one.ended && torch::equal(tokens, wanted);
  }
  return count;
}

TEST(Seq2SeqLearns, ToReverseSequencesThatItHasNotSeen) {
  constexpr int kMostSteps = 350;
  constexpr double kRate = 4e-3;
  Mirrored<Seq2Seq> towers({.method = {.shards = 2,
                                       .optimizer = Adam{.lr = kRate},
                                       .clip = {.global_norm = 5},
                                       .seed = 1},
                            .where = {.devices = cpu_devices(2)}},
                           Seq2SeqOptions{.vocabulary = kFirstOwnToken + kSymbols,
                                          .embedding = 32,
                                          .hidden = 128,
                                          .layers = 1,
                                          .bidirectional = true});
  const Schedule schedule = {.shape = Cosine{.steps = kMostSteps, .floor = 0.01}, .warm_up = 20};
  for (int step = 0; step < kMostSteps; ++step) {
    towers.set_learning_rate(kRate * rate_factor(schedule, step));
    towers.step(
        reversals(static_cast<std::uint64_t>(step), 64),
        [](Seq2Seq& model, const SequenceBatch& shard) { return sequence_loss(model, shard); });
  }
  constexpr std::int64_t kRows = 1000;  // of so many sequences that none was in training
  EXPECT_GE(exact(towers.model(), reversals(1'000'000, kRows)), 0.99 * kRows);
}

}  // namespace seq2seq_learns_test
