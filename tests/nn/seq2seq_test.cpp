// The sequence-to-sequence model: padding, teacher forcing against one token at a time, shards.

#include <gtest/gtest.h>
#include <lockstep/batch.h>
#include <lockstep/error.h>
#include <lockstep/lockstep.h>
#include <lockstep/nn/projection.h>
#include <lockstep/nn/seq2seq.h>
#include <lockstep/sim.h>

#include <ATen/autocast_mode.h>

#include <functional>
#include <set>

namespace seq2seq_test {

using namespace lockstep;
using namespace lockstep::nn;
using namespace lockstep::text;
using torch::Tensor;

constexpr std::int64_t kVocabulary = 23;

/// Rows of random tokens: sources of 1 to `longest`, targets of 0 to `longest`.
SequenceBatch random_batch(std::int64_t rows, std::int64_t longest, std::uint64_t seed = 1) {
  auto generator = torch::make_generator<torch::CPUGeneratorImpl>(seed);
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return torch::randint(low, high, {1}, generator, torch::kInt64).item<std::int64_t>();
  };
  SequenceBatch batch;
  batch.source = torch::full({rows, longest}, kPad, torch::kInt64);
  batch.target = torch::full({rows, longest + 2}, kPad, torch::kInt64);
  batch.lengths = torch::empty({rows}, torch::kInt64);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t from = draw(1, longest + 1), to = draw(0, longest + 1);
    batch.lengths[row] = from;
    for (std::int64_t i = 0; i < from; ++i)
      batch.source[row][i] = draw(kFirstOwnToken, kVocabulary);
    batch.target[row][0] = std::int64_t{kBegin};
    for (std::int64_t i = 0; i < to; ++i)
      batch.target[row][i + 1] = draw(kFirstOwnToken, kVocabulary);
    batch.target[row][to + 1] = std::int64_t{kEnd};
  }
  return batch;
}

/// The same rows with `more` columns of padding on both sides.
SequenceBatch padded(const SequenceBatch& batch, std::int64_t more) {
  SequenceBatch result = batch;
  result.source = torch::constant_pad_nd(batch.source, {0, more}, kPad);
  result.target = torch::constant_pad_nd(batch.target, {0, more}, kPad);
  return result;
}

Seq2SeqOptions small(Cell cell, Attention attention, bool feeding, bool bidirectional, bool tied) {
  return {.vocabulary = kVocabulary,
          .embedding = 10,
          .hidden = 12,
          .layers = 2,
          .cell = cell,
          .bidirectional = bidirectional,
          .attention = attention,
          .input_feeding = feeding,
          .tied = tied};
}

std::vector<Seq2SeqOptions> every_kind() {
  std::vector<Seq2SeqOptions> all;
  for (const Cell cell : {Cell::lstm, Cell::gru})
    for (const Attention attention : {Attention::dot, Attention::general, Attention::bahdanau})
      for (const bool feeding : {false, true})
        for (const bool bidirectional : {false, true})
          for (const bool tied : {false, true})
            all.push_back(small(cell, attention, feeding, bidirectional, tied));
  return all;
}

std::string name_of(const Seq2SeqOptions& options) {
  const char* const attentions[] = {"dot", "general", "bahdanau"};
  return std::string(options.cell == Cell::lstm ? "lstm " : "gru ") +
         attentions[static_cast<int>(options.attention)] +
         (options.input_feeding ? " feeding" : "") +
         (options.bidirectional ? " bidirectional" : "") + (options.tied ? " tied" : "");
}

/// Weights large enough that every part of the model shows in the outputs.
void make_lively(Seq2Seq& model) {
  for (Tensor parameter : model.parameters()) torch::nn::init::uniform_(parameter, -0.5, 0.5);
}

class Seq2SeqTest : public testing::Test {
 protected:
  Seq2SeqTest() {
    torch::set_num_threads(1);
    torch::manual_seed(2);
  }
};

/// One test, not one a kind: each would start a process.
class EveryKind : public Seq2SeqTest {
 protected:
  static void expect(const std::function<void(Seq2Seq& model)>& what) {
    for (const Seq2SeqOptions& options : every_kind()) {
      SCOPED_TRACE(name_of(options));
      Seq2Seq model(options);
      make_lively(model);
      what(model);
    }
  }
};

std::vector<Tensor> gradients(Seq2Seq& model, const SequenceBatch& batch) {
  const Loss loss = sequence_loss(model, batch);
  return torch::autograd::grad({loss.sum}, model.parameters());
}

TEST_F(EveryKind, TeacherForcingEqualsOneTokenAtATime) {
  expect([](Seq2Seq& model) {
    const SequenceBatch batch = random_batch(4, 6);
    const torch::NoGradGuard no_gradients;
    const auto memory = model.encode(batch.source, batch.lengths);
    const Tensor expected = model.logits(model.decode(memory, batch.target)).log_softmax(-1);
    const auto writing = token_model(model, batch.source, batch.lengths);
    for (std::int64_t i = 0; i < batch.target.size(1); ++i)
      EXPECT_LT((writing->next(batch.target.select(1, i)) - expected.select(1, i))
                    .abs()
                    .max()
                    .item<float>(),
                1e-5)
          << "token " << i;
  });
}

TEST_F(EveryKind, PaddingChangesNothing) {
  expect([](Seq2Seq& model) {
    model.to(torch::kFloat64);
    const SequenceBatch batch = random_batch(5, 6);
    const SequenceBatch more = padded(batch, 3);
    EXPECT_NEAR(sequence_loss(model, more).sum.item<double>(),
                sequence_loss(model, batch).sum.item<double>(), 1e-10);
    // Without trimming, what encode and decode say of the real tokens.
    const auto memory = model.encode(batch.source, batch.lengths),
               longer = model.encode(more.source, more.lengths);
    for (std::size_t i = 0; i < memory.state.size(); ++i)
      for (std::size_t j = 0; j < memory.state[i].size(); ++j)
        EXPECT_TRUE(torch::allclose(memory.state[i][j], longer.state[i][j], 0, 1e-12));
    const Tensor features = model.decode(memory, batch.target),
                 same = model.decode(longer, more.target).slice(1, 0, features.size(1));
    EXPECT_TRUE(torch::allclose(features, same, 0, 1e-12));
    const auto parameters = model.parameters();
    const auto short_grads = torch::autograd::grad({features.square().sum()}, parameters, {}, {},
                                                   false, true),
               long_grads =
                   torch::autograd::grad({same.square().sum()}, parameters, {}, {}, false, true);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      ASSERT_EQ(short_grads[i].defined(), long_grads[i].defined());
      if (!short_grads[i].defined()) continue;  // the output's
      EXPECT_TRUE(torch::allclose(short_grads[i], long_grads[i], 0, 1e-10)) << i;
    }
  });
}

TEST_F(EveryKind, ARowDoesNotSeeTheOthers) {
  expect([](Seq2Seq& model) {
    model.to(torch::kFloat64);
    const SequenceBatch batch = random_batch(5, 6);
    double sum = 0, weight = 0;
    for (int row = 0; row < 5; ++row) {
      const Loss loss = sequence_loss(model, batch::part(batch, row, 5));
      sum += loss.sum.item<double>();
      weight += loss.weight;
    }
    const Loss whole = sequence_loss(model, batch);
    EXPECT_NEAR(whole.sum.item<double>(), sum, 1e-10);
    EXPECT_EQ(whole.weight, weight);
    EXPECT_EQ(weight, batch.target.ne(kPad).sum().item<double>() - 5);  // all but kBegin
  });
}

TEST_F(EveryKind, EveryParameterIsUsed) {
  expect([](Seq2Seq& model) {
    const SequenceBatch batch = random_batch(5, 6);
    const auto names = model.named_parameters().keys();
    const auto found = gradients(model, batch);
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_GT(found[i].abs().max().item<float>(), 0) << names[i];
  });
}

TEST_F(EveryKind, AttentionSumsToOneOverTheSourceAlone) {
  expect([](Seq2Seq& model) {
    const SequenceBatch batch = random_batch(4, 6);
    const auto writing = token_model(model, batch.source, batch.lengths);
    EXPECT_FALSE(writing->attention().defined());
    writing->next(batch.target.select(1, 0));
    const Tensor weights = writing->attention();
    ASSERT_EQ(weights.sizes(), batch.source.sizes());
    EXPECT_TRUE(torch::allclose(weights.sum(1), torch::ones({4})));
    EXPECT_EQ(weights.masked_select(batch.source.eq(kPad)).abs().sum().item<float>(), 0);
  });
}

TEST_F(EveryKind, SelectedRowsGoOnAsTheyWould) {
  expect([](Seq2Seq& model) {
    const SequenceBatch batch = random_batch(3, 6);
    const Tensor rows = torch::tensor({2, 0, 0, 2}), first = torch::tensor({5, 6, 7});
    const auto writing = token_model(model, batch.source, batch.lengths);
    writing->next(first);
    writing->select(rows);
    ASSERT_EQ(writing->rows(), 4);
    const auto straight =
        token_model(model, batch.source.index_select(0, rows), batch.lengths.index_select(0, rows));
    straight->next(first.index_select(0, rows));
    const Tensor second = torch::tensor({8, 9, 10, 11});
    EXPECT_TRUE(torch::allclose(writing->next(second), straight->next(second), 0, 1e-6));
    const Tensor within = torch::tensor({3, 2, 1, 0});  // beams of one source change places
    writing->select(within);
    straight->select(within);
    EXPECT_TRUE(torch::allclose(writing->next(second), straight->next(second), 0, 1e-6));
    EXPECT_TRUE(torch::allclose(writing->attention(), straight->attention(), 0, 1e-6));
  });
}

TEST_F(EveryKind, RunsInBfloat16) {
  expect([](Seq2Seq& model) {
    const SequenceBatch batch = random_batch(5, 6);
    const double whole = sequence_loss(model, batch).sum.item<double>();
    at::autocast::set_autocast_enabled(torch::kCPU, true);
    const Loss loss = sequence_loss(model, batch);
    at::autocast::set_autocast_enabled(torch::kCPU, false);
    EXPECT_NEAR(loss.sum.item<double>(), whole, 0.02 * whole);
    loss.sum.backward();
    EXPECT_EQ(model.output_bias.grad().scalar_type(), torch::kFloat32);
  });
}

TEST_F(Seq2SeqTest, LossIsTheCrossEntropyOfEveryRealToken) {
  Seq2Seq model(small(Cell::lstm, Attention::general, false, true, false));
  make_lively(model);
  const SequenceBatch batch = random_batch(5, 6);
  const Tensor labels = batch.target.slice(1, 1);
  const auto memory = model.encode(batch.source, batch.lengths);
  const Tensor log_probabilities =
      model.logits(model.decode(memory, batch.target.slice(1, 0, -1))).log_softmax(-1);
  const Tensor of_labels = log_probabilities.gather(2, labels.unsqueeze(2)).squeeze(2);
  const Tensor real = labels.ne(kPad);
  const double plain = -(of_labels * real).sum().item<double>();
  EXPECT_NEAR(sequence_loss(model, batch).sum.item<double>(), plain, 1e-4);
  const double uniform = -(log_probabilities.mean(2) * real).sum().item<double>();
  EXPECT_NEAR(sequence_loss(model, batch, {.label_smoothing = 0.1}).sum.item<double>(),
              0.9 * plain + 0.1 * uniform, 1e-4);
}

TEST_F(Seq2SeqTest, SamplesInTrainingOnly) {
  Seq2Seq model(small(Cell::gru, Attention::dot, false, false, false));
  const SequenceBatch batch = random_batch(5, 6);
  const Seq2SeqLossOptions sampled = {.samples = 4};
  const double whole = sequence_loss(model, batch).sum.item<double>();
  EXPECT_NE(sequence_loss(model, batch, sampled).sum.item<double>(), whole);
  model.eval();
  EXPECT_EQ(sequence_loss(model, batch, sampled).sum.item<double>(), whole);
}

TEST_F(Seq2SeqTest, NothingToPredictWeighsNothing) {
  Seq2Seq model(small(Cell::lstm, Attention::general, false, false, false));
  const SequenceBatch batch = random_batch(3, 6);
  const Loss of_no_rows = sequence_loss(model, batch::part(batch, 0, 4));
  EXPECT_EQ(of_no_rows.weight, 0);
  EXPECT_EQ(of_no_rows.sum.item<double>(), 0);
  SequenceBatch silent = batch;
  silent.target = torch::full_like(batch.target, kPad);
  EXPECT_EQ(sequence_loss(model, silent).weight, 0);
}

TEST_F(Seq2SeqTest, DropoutIsForTrainingAndNotForWriting) {
  Seq2SeqOptions options = small(Cell::lstm, Attention::general, false, false, false);
  options.keep = 0.5;
  Seq2Seq model(options);
  make_lively(model);
  const SequenceBatch batch = random_batch(5, 6);
  const auto loss = [&] { return sequence_loss(model, batch).sum.item<double>(); };
  EXPECT_NE(loss(), loss());
  const auto first = [&] {
    return token_model(model, batch.source, batch.lengths)->next(batch.target.select(1, 0));
  };
  EXPECT_TRUE(torch::equal(first(), first()));
  EXPECT_TRUE(model.is_training());
  EXPECT_FALSE(first().requires_grad());
  model.eval();
  EXPECT_EQ(loss(), loss());
  first();
  EXPECT_FALSE(model.is_training());
}

TEST_F(Seq2SeqTest, ABidirectionalEncoderSeesWhatComesLater) {
  const SequenceBatch batch = random_batch(1, 6, 3);
  SequenceBatch other = batch;
  other.source = batch.source.clone();
  const auto last = batch.lengths[0].item<std::int64_t>() - 1;
  ASSERT_GT(last, 0);
  other.source[0][last] = batch.source[0][last].item<std::int64_t>() == 5 ? 6 : 5;
  for (const bool bidirectional : {false, true}) {
    Seq2Seq model(small(Cell::lstm, Attention::dot, false, bidirectional, false));
    const Tensor one = model.encode(batch.source, batch.lengths).outputs[0][0],
                 two = model.encode(other.source, other.lengths).outputs[0][0];
    EXPECT_EQ(torch::equal(one, two), !bidirectional);
  }
}

TEST_F(Seq2SeqTest, NamesReadWellInACheckpoint) {
  const auto names = [](const Seq2SeqOptions& options) {
    const auto keys = Seq2Seq(options).named_parameters().keys();
    return std::set<std::string>(keys.begin(), keys.end());
  };
  auto options = small(Cell::lstm, Attention::bahdanau, false, true, false);
  options.layers = 1;
  EXPECT_EQ(
      names(options),
      (std::set<std::string>{
          "source.weight", "target.weight", "encoder.0.weight_input", "encoder.0.weight_hidden",
          "encoder.0.bias", "reverse_encoder.0.weight_input", "reverse_encoder.0.weight_hidden",
          "reverse_encoder.0.bias", "decoder.0.weight_input", "decoder.0.weight_hidden",
          "decoder.0.bias", "attention_key", "attention_query", "attention_score", "combine.weight",
          "combine.bias", "output_weight", "output_bias"}));
  options = small(Cell::gru, Attention::dot, false, false, true);
  options.layers = 1;
  EXPECT_EQ(names(options),
            (std::set<std::string>{
                "embedding.weight", "encoder.0.weight_input", "encoder.0.weight_hidden",
                "encoder.0.bias", "decoder.0.weight_input", "decoder.0.weight_hidden",
                "decoder.0.bias", "combine.weight", "combine.bias", "output_bias"}));
}

TEST_F(Seq2SeqTest, RefusesOptionsThatMakeNoNetwork) {
  const Seq2SeqOptions good = small(Cell::lstm, Attention::dot, false, false, false);
  const auto refused = [&](auto change) {
    Seq2SeqOptions options = good;
    change(options);
    EXPECT_THROW(Seq2Seq{options}, ConfigError);
  };
  refused([](auto& options) { options.vocabulary = kFirstOwnToken; });
  refused([](auto& options) { options.embedding = 0; });
  refused([](auto& options) { options.hidden = 0; });
  refused([](auto& options) { options.layers = 0; });
  refused([](auto& options) { options.keep = 0; });
  refused([](auto& options) { options.keep = 1.5; });
  refused([](auto& options) { options.bidirectional = true, options.hidden = 7; });
}

/// The state after three steps of 11 rows in 4 shards, dropout on.
State trained(const std::vector<Device>& devices, Seq2SeqOptions options) {
  options.keep = 0.7;
  Mirrored<Seq2Seq> towers({.method = {.shards = 4, .optimizer = Adam{.lr = 1e-2}, .seed = 3},
                            .where = {.devices = devices}},
                           options);
  for (std::uint64_t step = 0; step < 3; ++step)
    towers.step(random_batch(11, 6, step), [](Seq2Seq& model, const SequenceBatch& shard) {
      return sequence_loss(model, shard);
    });
  return towers.state();
}

TEST_F(Seq2SeqTest, IsTheSameOnAnyDevices) {
  for (const Cell cell : {Cell::lstm, Cell::gru})
    for (const bool stepwise : {false, true}) {
      const auto attention = stepwise ? Attention::bahdanau : Attention::general;
      const auto options = small(cell, attention, stepwise, true, stepwise);
      const State one = trained(cpu_devices(1), options);
      EXPECT_EQ(first_difference(one, trained(cpu_devices(2), options)), "") << name_of(options);
      EXPECT_EQ(first_difference(one, trained(cpu_devices(3), options)), "") << name_of(options);
    }
}

TEST_F(Seq2SeqTest, TrainsOnAnAccelerator) {
  const auto options = small(Cell::lstm, Attention::general, false, true, false);
  EXPECT_EQ(first_difference(trained(parse_devices("sim:0"), options),
                             trained(parse_devices("sim:0-1"), options)),
            "");
}

}  // namespace seq2seq_test
