// Loss and results of classification, against sums written out by hand.

#include <gtest/gtest.h>
#include <lockstep/lockstep.h>
#include <lockstep/vision/classify.h>

#include <algorithm>
#include <cmath>

namespace classify_test {

using namespace lockstep;
using namespace lockstep::vision;

/// Scores [rows, classes] in which the label often wins.
struct Answers {
  Answers(std::int64_t rows, std::int64_t classes) {
    auto generator = torch::make_generator<torch::CPUGeneratorImpl>(std::uint64_t{5});
    labels = torch::randint(classes, {rows}, generator, torch::kInt64);
    logits = torch::randn({rows, classes}, generator);
    logits.scatter_add_(1, labels.unsqueeze(1), torch::ones({rows, 1}));
  }
  torch::Tensor logits, labels;
};

/// The cross entropy of a row, in the words of its definition.
double plain_loss(const torch::Tensor& logits, std::int64_t label, double smoothing = 0) {
  double total = 0, loss = 0;
  const std::int64_t classes = logits.size(0);
  for (std::int64_t i = 0; i < classes; ++i) total += std::exp(logits[i].item<double>());
  for (std::int64_t i = 0; i < classes; ++i) {
    const double share =
        (i == label ? 1 - smoothing : 0) + smoothing / static_cast<double>(classes);
    loss -= share * (logits[i].item<double>() - std::log(total));
  }
  return loss;
}

/// How many scores of a row are above the label's.
std::int64_t rank(const torch::Tensor& logits, std::int64_t label) {
  return (logits > logits[label]).sum().item<std::int64_t>();
}

TEST(CrossEntropy, IsTheSumOverRowsWithTheRowsAsWeight) {
  const Answers answers(9, 4);
  for (const double smoothing : {0.0, 0.1}) {
    double expected = 0;
    for (std::int64_t i = 0; i < 9; ++i)
      expected += plain_loss(answers.logits[i], answers.labels[i].item<std::int64_t>(), smoothing);
    const Loss loss = cross_entropy(answers.logits, answers.labels, smoothing);
    EXPECT_NEAR(loss.sum.item<double>(), expected, 1e-5);  // in single precision
    EXPECT_EQ(loss.weight, 9);
  }
}

TEST(CrossEntropy, RefusesShapesThatDoNotBelongTogether) {
  EXPECT_THROW(cross_entropy(torch::rand({3, 4}), torch::zeros({2}, torch::kInt64)),
               std::logic_error);
  EXPECT_THROW(cross_entropy(torch::rand({3}), torch::zeros({3}, torch::kInt64)), std::logic_error);
}

TEST(Classify, CountsAsAPlainLoopDoes) {
  const Answers answers(200, 12);
  double loss = 0, first = 0, among_five = 0;
  torch::Tensor confusion = torch::zeros({12, 12}, torch::kInt64);
  for (std::int64_t i = 0; i < 200; ++i) {
    const torch::Tensor row = answers.logits[i];
    const auto label = answers.labels[i].item<std::int64_t>();
    loss += plain_loss(row, label);
    first += rank(row, label) == 0;
    among_five += rank(row, label) < 5;
    confusion[label][row.argmax().item<std::int64_t>()] += 1;
  }
  const Classification found = classify(answers.logits, answers.labels);
  ASSERT_EQ(found.metrics.size(), 3U);
  EXPECT_NEAR(found.metrics.at("loss").sum, loss, 1e-9 * loss);  // both in double precision
  EXPECT_EQ(found.metrics.at("accuracy").sum, first);
  EXPECT_EQ(found.metrics.at("top5").sum, among_five);
  for (const auto& [name, mean] : found.metrics) EXPECT_EQ(mean.weight, 200) << name;
  EXPECT_EQ(found.confusion.scalar_type(), torch::kInt64);
  EXPECT_TRUE(torch::equal(found.confusion, confusion));
}

TEST(Classify, TopFiveIsForMoreThanTenClassesOnly) {
  const Answers ten(20, 10), eleven(20, 11);
  EXPECT_FALSE(classify(ten.logits, ten.labels).metrics.contains("top5"));
  EXPECT_TRUE(classify(eleven.logits, eleven.labels).metrics.contains("top5"));
}

TEST(Classify, PartsMergeIntoTheWhole) {
  const Answers answers(100, 11);
  const Classification whole = classify(answers.logits, answers.labels);
  Classification merged;
  for (const auto& [begin, end] : {std::pair{0, 1}, {1, 40}, {40, 40}, {40, 100}})
    merged += classify(answers.logits.slice(0, begin, end), answers.labels.slice(0, begin, end));
  EXPECT_TRUE(torch::equal(merged.confusion, whole.confusion));
  ASSERT_EQ(merged.metrics.size(), whole.metrics.size());
  for (const auto& [name, mean] : whole.metrics) {
    EXPECT_EQ(merged.metrics.at(name).weight, mean.weight) << name;
    // Losses are summed in another order, in double precision.
    EXPECT_NEAR(merged.metrics.at(name).sum, mean.sum, 1e-12 * mean.sum) << name;
  }
}

TEST(Classify, MergingLeavesTheOtherResultAlone) {
  const Answers answers(10, 3);
  const Classification part = classify(answers.logits, answers.labels);
  const torch::Tensor before = part.confusion.clone();
  Classification total;
  total += part;
  total += part;
  EXPECT_TRUE(torch::equal(part.confusion, before));
  EXPECT_TRUE(torch::equal(total.confusion, 2 * before));
}

TEST(Classify, ResultsOfDifferentClassesAreNotMerged) {
  const Answers three(10, 3), four(10, 4);
  Classification total = classify(three.logits, three.labels);
  EXPECT_THROW(total += classify(four.logits, four.labels), ConfigError);
  EXPECT_EQ(total.metrics.at("accuracy").weight, 10);
}

TEST(Classify, IsWhatEvaluateMergesOverBatchesAndDevices) {
  struct Net : torch::nn::Module {
    Net() { layer = register_module("layer", torch::nn::Linear(6, 3)); }
    torch::nn::Linear layer = nullptr;
  };
  using Batch = torch::data::Example<>;
  const torch::Tensor data = torch::rand({50, 6}), labels = torch::arange(50) % 3;
  std::vector<Batch> batches;
  for (int i = 0; i < 7; ++i)
    batches.push_back({batch::part(data, i, 7), batch::part(labels, i, 7)});
  Mirrored<Net> towers({.where = {.devices = cpu_devices(2)}});
  const auto metric = [](Net& net, const Batch& batch) {
    return classify(net.layer(batch.data), batch.target);
  };
  const Classification merged = towers.evaluate(batches, metric);
  const Classification whole = metric(towers.model(), {data, labels});
  EXPECT_TRUE(torch::equal(merged.confusion, whole.confusion));
  EXPECT_EQ(merged.metrics.at("accuracy").weight, 50);
}

}  // namespace classify_test
