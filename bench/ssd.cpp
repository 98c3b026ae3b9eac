#include "ssd.h"

#include <lockstep/vision/anchors.h>

#include <algorithm>
#include <cstddef>
#include <span>

#include "inputs.h"
#include "layers.h"

namespace bench {
namespace {

using lockstep::vision::BoxCode;
using lockstep::vision::Corners;

constexpr std::int64_t kSize = 300, kClasses = 2;
constexpr std::int64_t kThings = 4;  // at the most in an image
constexpr std::int64_t kShortest = 30, kSides = 210;
constexpr int kMinNegatives = 3;

/// Writes one image's targets in place. `boxes` and `labels` are its things.
void write_targets(std::span<const Corners> anchors, const Tensor& boxes, const Tensor& labels,
                   std::int64_t* anchor_labels, float* codes) {
  std::vector<Corners> things;
  std::vector<int> classes;
  const auto box = boxes.accessor<float, 2>();
  const auto label = labels.accessor<std::int64_t, 1>();
  for (std::int64_t i = 0; i < labels.size(0) && label[i] >= 0; ++i) {
    things.push_back({box[i][0], box[i][1], box[i][2], box[i][3]});
    classes.push_back(static_cast<int>(label[i]));
  }
  const auto targets = lockstep::vision::make_targets(anchors, things, classes);
  std::copy(targets.labels.begin(), targets.labels.end(), anchor_labels);
  for (const BoxCode& code : targets.codes) codes = std::copy(code.begin(), code.end(), codes);
}

}  // namespace

Ssd::Ssd()
    : lockstep::nn::Ssd(
          {.size = kSize, .classes = kClasses, .norm = {.epsilon = 1e-5, .momentum = 0.1}}) {}

lockstep::Loss Ssd::loss(const Batch& batch) {
  const auto& [images, boxes, labels] = batch;
  const auto count = static_cast<std::int64_t>(anchors.size());
  Tensor anchor_labels = torch::empty({images.size(0), count}, torch::kInt64);
  Tensor codes = torch::empty({images.size(0), count, 4});
  for (std::int64_t row = 0; row < images.size(0); ++row)
    write_targets(anchors, boxes[row], labels[row], anchor_labels[row].data_ptr<std::int64_t>(),
                  codes[row].data_ptr<float>());
  return lockstep::nn::ssd_loss(forward(images), anchors, anchor_labels, codes,
                                {.mining = {.min_negatives = kMinNegatives}});
}

void Ssd::fill() {
  const torch::NoGradGuard no_gradients;
  InitialWeights initial;
  for (const Tensor& parameter : parameters())  // in the order of layers, as the peers draw
    if (parameter.dim() == 4) initial.draw_kernel(parameter);
}

std::vector<Ssd::Batch> Ssd::batches() {
  NumpyRandom random(0);
  const Tensor images = random_inputs(random, {kGlobalBatch, kSize, kSize, 3});
  const Tensor sides =
      random_integers(random, kSides, {kLabelings, kGlobalBatch, kThings, 2}) + kShortest;
  const Tensor places = random_integers(random, kSize, {kLabelings, kGlobalBatch, kThings, 2});
  const Tensor classes = random_integers(random, kClasses, {kLabelings, kGlobalBatch, kThings});
  const Tensor counts = random_integers(random, kThings, {kLabelings, kGlobalBatch, 1}) + 1;
  const Tensor corners = (places * (kSize - sides)).floor_divide(kSize);
  const Tensor boxes = torch::cat({corners, corners + sides}, -1).to(torch::kFloat32) / kSize;
  const Tensor labels = classes.masked_fill(torch::arange(kThings) >= counts, -1);
  std::vector<Batch> result;
  for (std::int64_t i = 0; i < kLabelings; ++i) result.emplace_back(images, boxes[i], labels[i]);
  return result;
}

lockstep::MirroredOptions Ssd::options() {
  lockstep::MirroredOptions result;
  result.method.optimizer =
      lockstep::RmsProp{.lr = 0.004, .decay = 0.9, .epsilon = 1.0, .momentum = 0.9};
  return result;
}

}  // namespace bench
