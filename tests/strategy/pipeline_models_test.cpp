// The models that ship with stages come to the bits of their whole losses.

#include <lockstep/nn/stages.h>

#include "nn/detecting.h"
#include "strategy/on_pipeline.h"

namespace pipeline_models_test {

using namespace on_pipeline;
using namespace lockstep::nn;
using namespace lockstep::text;

class PipelineModels : public testing::Test {
 protected:
  void SetUp() override { sim::configure({.devices = 4}); }
};

/// The state after three steps, on `towers`.
template <class Towers, class Source, class LossFn>
State after_three(Towers&& towers, const Source& source, const LossFn& loss) {
  for (int step = 0; step < 3; ++step) EXPECT_TRUE(towers.step(source(step), loss).applied);
  return towers.state();
}

MirroredOptions four_shards(std::vector<Device> devices) {
  MirroredOptions how = options(std::move(devices));
  how.method.shards = 4;
  return how;
}

SequenceBatch sentences(int step) {
  constexpr std::int64_t kRows = 11, kLongest = 6, kVocabulary = 23;
  auto random = models::generator(step);
  const auto draw = [&](std::int64_t low, std::int64_t high, at::IntArrayRef sizes) {
    return torch::randint(low, high, sizes, random, torch::kInt64);
  };
  const Tensor at = torch::arange(kLongest).unsqueeze(0);
  SequenceBatch batch;
  batch.lengths = draw(1, kLongest + 1, {kRows});
  batch.source = draw(kFirstOwnToken, kVocabulary, {kRows, kLongest})
                     .masked_fill(at >= batch.lengths.unsqueeze(1), kPad);
  const Tensor ends = draw(1, kLongest + 1, {kRows, 1});
  batch.target = torch::full({kRows, kLongest + 2}, kPad, torch::kInt64);
  batch.target.slice(1, 1, kLongest + 1)
      .copy_(draw(kFirstOwnToken, kVocabulary, {kRows, kLongest}).masked_fill(at >= ends, kPad));
  batch.target.select(1, 0).fill_(kBegin);
  batch.target.scatter_(1, ends + 1, kEnd);
  if (step == 1) batch.target.slice(0, 0, 3).slice(1, 1).fill_(kPad);  // a shard without a token
  return batch;
}

TEST_F(PipelineModels, Seq2SeqInTwoAndThreeStagesIsTheSameBitForBit) {
  Seq2SeqOptions plain{.vocabulary = 23, .embedding = 10, .hidden = 12, .keep = 0.7};
  Seq2SeqOptions fed = plain, tied = plain, both = plain;
  fed.attention = Attention::bahdanau;
  fed.input_feeding = true;
  tied.tied = true;
  both.bidirectional = true;
  both.cell = Cell::gru;
  const Seq2SeqLossOptions sampled{.samples = 5};
  const auto whole = [&](Seq2Seq& net, const SequenceBatch& b) {
    return sequence_loss(net, b, sampled);
  };
  for (const Seq2SeqOptions& shape : {plain, fed, tied, both})
    for (const auto& devices : {cpu_devices(4), sim_devices(4)}) {
      const auto some = [&](std::size_t n) {
        return std::vector<Device>(devices.begin(),
                                   devices.begin() + static_cast<std::ptrdiff_t>(n));
      };
      const auto like = four_shards({});
      const State expected =
          after_three(Mirrored<Seq2Seq>(four_shards(some(1)), shape), sentences, whole);
      EXPECT_EQ(
          first_difference(expected, after_three(Pipeline<Seq2Seq>(piped(like, some(2), 2), shape),
                                                 sentences, seq2seq_halves(sampled))),
          "")
          << devices[0].name();
      EXPECT_EQ(
          first_difference(expected, after_three(Pipeline<Seq2Seq>(piped(like, some(3), 3), shape),
                                                 sentences, seq2seq_stages(sampled))),
          "")
          << devices[0].name();
    }
}

TEST_F(PipelineModels, AResNetInOneToFourStagesIsTheSameBitForBit) {
  const ResNetOptions shape{
      .blocks = {1, 2, 1}, .stem = Stem::small, .width = 4, .channels = 2, .classes = 5};
  const auto source = [](int step) { return models::images(step, 12); };
  const auto loss = resnet_stages<Batch>(
      [](const Batch& b) { return b.first; },
      [](const Tensor& logits, const Batch& b) { return cross_entropy(logits, b.second); });
  for (const auto& devices : {cpu_devices(4), sim_devices(4)}) {
    const State expected = after_three(Mirrored<ResNet>(four_shards({devices[0]}), shape), source,
                                       models::CrossEntropy{});
    for (const int stages : {1, 2, 3, 4}) {
      const std::vector<Device> some(devices.begin(), devices.begin() + stages);
      EXPECT_EQ(
          first_difference(
              expected, after_three(Pipeline<ResNet>(piped(four_shards({}), some, stages), shape),
                                    source, loss)),
          "")
          << stages << " stages from " << devices[0].name();
    }
  }
}

TEST_F(PipelineModels, AConvNetInOneToThreeStagesIsTheSameBitForBit) {
  const ConvNetOptions shape{.width = 3, .hidden = 7, .image_size = 6, .channels = 2, .classes = 5};
  const auto source = [](int step) { return models::images(step, 12); };
  const auto loss = classifier_stages<ConvNet, Batch>(
      [](const Batch& b) { return b.first; },
      [](const Tensor& logits, const Batch& b) { return cross_entropy(logits, b.second); });
  const auto devices = cpu_devices(3);
  const State expected = after_three(Mirrored<ConvNet>(four_shards({devices[0]}), shape), source,
                                     models::CrossEntropy{});
  for (const int stages : {1, 2, 3}) {
    const std::vector<Device> some(devices.begin(), devices.begin() + stages);
    EXPECT_EQ(
        first_difference(expected,
                         after_three(Pipeline<ConvNet>(piped(four_shards({}), some, stages), shape),
                                     source, loss)),
        "")
        << stages << " stages";
  }
}

TEST_F(PipelineModels, ADetectorInTwoStagesIsTheSameBitForBit) {
  const SsdOptions shape = detecting::small_ssd();
  const auto anchors = vision::make_anchors(anchor_options(shape));
  const auto source = [&](int step) {
    return detecting::random_pictures(anchors, static_cast<unsigned>(step), {2, 0, 1, 3, 0, 1, 2});
  };
  const auto whole = [](Ssd& net, const detecting::Pictures& b) {
    return ssd_loss(net.forward(b.images), net.anchors, b.labels, b.codes);
  };
  for (const auto& devices : {cpu_devices(2), sim_devices(4)}) {
    const State expected =
        after_three(Mirrored<Ssd>(four_shards({devices[0]}), shape), source, whole);
    EXPECT_EQ(first_difference(expected,
                               after_three(Pipeline<Ssd>(piped(four_shards({}), devices, 2), shape),
                                           source, ssd_stages())),
              "")
        << devices[0].name();
  }
}

}  // namespace pipeline_models_test
