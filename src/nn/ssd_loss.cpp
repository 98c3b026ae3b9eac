#include <lockstep/error.h>
#include <lockstep/nn/ssd.h>

#include <algorithm>
#include <span>

namespace lockstep::nn {
namespace {

using torch::Tensor;

/// Sums of 16-bit losses would lose most of their digits.
Tensor at_least_float32(const Tensor& x) {
  return c10::elementSize(x.scalar_type()) < 4 ? x.to(torch::kFloat32) : x;
}

template <class T>
std::span<const T> values_of(const Tensor& contiguous) {
  return {static_cast<const T*>(contiguous.const_data_ptr()),
          static_cast<std::size_t>(contiguous.numel())};
}

Tensor on_host(const Tensor& tensor, torch::Dtype dtype) {
  return tensor.detach().to(torch::kCPU, dtype).contiguous();
}

/// 1 where a class is an anchor's, [rows, anchors, classes + 1].
Tensor wanted_scores(const Tensor& labels, const Tensor& logits, bool background_as_zeros) {
  const Tensor classes =
      torch::arange(background_as_zeros ? 1 : 0, logits.size(2), labels.options());
  const Tensor own = labels.unsqueeze(2).eq(classes).to(logits.scalar_type());
  return background_as_zeros ? torch::constant_pad_nd(own, {1, 0}) : own;
}

/// Of each anchor, [rows, anchors].
Tensor classification(const Tensor& logits, const Tensor& labels, const SsdLossOptions& options) {
  const Tensor wanted = wanted_scores(labels, logits, options.background_as_zeros);
  const Tensor losses =
      torch::binary_cross_entropy_with_logits(logits, wanted, {}, {}, at::Reduction::None);
  if (options.kind == SsdLossKind::mined) return losses.sum(2);
  const Tensor scores = logits.sigmoid();
  const Tensor wrong = (wanted - scores).abs();  // 1 - the probability of what is right
  const Tensor balance = wanted * (2 * options.alpha - 1) + (1 - options.alpha);
  return (losses * balance * wrong.pow(options.gamma)).sum(2);
}

/// Of each anchor, [rows, anchors]; 0 for background.
Tensor localization(const Tensor& found, const Tensor& codes, const Tensor& is_positive) {
  const Tensor losses =
      torch::huber_loss(found, codes.to(found.scalar_type()), at::Reduction::None);
  return losses.sum(2) * is_positive;
}

/// 1 where an anchor counts, [rows, anchors], on the CPU. Selects image by image.
Tensor mined(const Tensor& losses, const Tensor& found, const std::vector<vision::Corners>& anchors,
             const Tensor& labels, const vision::MiningOptions& options) {
  const Tensor own_losses = on_host(losses, torch::kFloat32);
  const Tensor own_codes = on_host(found, torch::kFloat32);
  const std::size_t count = anchors.size();
  const auto loss_values = values_of<float>(own_losses);
  const auto code_values = values_of<float>(own_codes);
  const auto label_values = values_of<std::int64_t>(labels);
  Tensor mask = torch::empty(losses.sizes(), torch::dtype(torch::kUInt8).device(torch::kCPU));
  auto* counts = mask.mutable_data_ptr<std::uint8_t>();
  std::vector<vision::Corners> boxes(count);
  for (std::size_t begin = 0; begin < loss_values.size(); begin += count) {
    for (std::size_t i = 0; i < count; ++i) {
      vision::BoxCode code;
      std::copy_n(&code_values[4 * (begin + i)], code.size(), code.begin());
      boxes[i] = vision::decode(code, anchors[i]);
    }
    const auto kept = vision::mine(loss_values.subspan(begin, count), boxes,
                                   label_values.subspan(begin, count), options);
    std::copy(kept.begin(), kept.end(), counts + begin);
  }
  return mask;
}

void check_shapes(const Ssd::Output& output, const std::vector<vision::Corners>& anchors,
                  const Tensor& labels, const Tensor& codes) {
  const auto count = static_cast<std::int64_t>(anchors.size());
  const std::int64_t rows = output.logits.size(0);
  check(output.logits.dim() == 3 && output.logits.size(1) == count, "logits are of other anchors");
  check(output.codes.sizes() == torch::IntArrayRef({rows, count, 4}), "codes are of other anchors");
  if (labels.sizes() != torch::IntArrayRef({rows, count}) ||
      codes.sizes() != torch::IntArrayRef({rows, count, 4}))
    throw ConfigError("the targets of an SSD with " + std::to_string(count) + " anchors are " +
                      c10::str(labels.sizes()) + " labels and " + c10::str(codes.sizes()) +
                      " codes for " + std::to_string(rows) +
                      " images: make them with make_targets and the model's anchors");
}

}  // namespace

Loss ssd_loss(const Ssd::Output& output, const std::vector<vision::Corners>& anchors,
              const Tensor& labels, const Tensor& codes, const SsdLossOptions& options) {
  check_shapes(output, anchors, labels, codes);
  const Tensor found = at_least_float32(output.codes), logits = at_least_float32(output.logits);
  Tensor classes = classification(logits, labels, options);
  Tensor boxes = localization(found, codes, labels.gt(0).to(found.scalar_type()));

  const Tensor own_labels = on_host(labels, torch::kInt64);
  const Tensor matched = own_labels.gt(0);
  Tensor positives = matched, counted = torch::ones_like(matched);
  if (options.kind == SsdLossKind::mined) {
    counted = mined(classes, found, anchors, own_labels, options.mining).to(torch::kBool);
    positives = matched.logical_and(counted);
    const Tensor mask = counted.to(classes.device(), classes.scalar_type());
    classes = classes * mask;
    boxes = boxes * mask;
  }
  const Tensor class_sum = classes.sum() * options.classification_weight;
  const Tensor box_sum =
      boxes.sum() * (options.localization_weight / (options.per_coordinate ? 4 : 1));

  const auto sum = [](const Tensor& flags) {
    return static_cast<double>(flags.sum().item<std::int64_t>());
  };
  const auto rows = static_cast<double>(labels.size(0));
  Loss loss{.sum = class_sum + box_sum, .weight = sum(matched)};
  loss.at_least_one()
      .metric("classification", class_sum, loss.weight)
      .metric("localization", box_sum, loss.weight)
      .metric("positives", sum(positives), rows)
      .metric("negatives", sum(counted) - sum(positives), rows);
  return loss;
}

}  // namespace lockstep::nn
