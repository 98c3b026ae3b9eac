// From targets to detections: a small detector learns four pictures by heart.

#include "detecting.h"

namespace ssd_learns_test {

using namespace detecting;

class SsdLearns : public OnOneThread {};

struct Thing {
  vision::Corners box;
  int label;
};

/// Noise, and a bright rectangle in one of three colours in each picture.
struct Rectangles {
  Pictures pictures;
  std::vector<Thing> things;
};

Rectangles rectangles(const std::vector<vision::Corners>& anchors) {
  Rectangles result{.pictures = {.images = images(1, 4, 3, kSize).data * 0.1}, .things = {}};
  const struct {
    int top, left, bottom, right;
  } pixels[] = {{10, 20, 50, 60}, {40, 5, 90, 40}, {0, 50, 30, 96}, {50, 50, 80, 90}};
  std::vector<vision::Targets> targets;
  for (const auto& [top, left, bottom, right] : pixels) {
    const auto row = static_cast<std::int64_t>(result.things.size());
    const int label = static_cast<int>(row) % 3;
    const auto edge = [](int pixel) { return static_cast<float>(pixel) / kSize; };
    result.pictures.images[row][label].slice(0, top, bottom).slice(1, left, right).add_(2);
    result.things.push_back({{edge(top), edge(left), edge(bottom), edge(right)}, label});
    targets.push_back(vision::make_targets(anchors, {{result.things.back().box}}, {{label}}));
  }
  set_targets(result.pictures, targets);
  return result;
}

void expect_learnt(const SsdLossOptions& loss, double class_bias) {
  SsdOptions options = small_ssd();
  options.norm.momentum = 0.2;  // a short training
  options.class_bias = class_bias;
  Mirrored<Ssd> towers({.method = {.shards = 1, .optimizer = Adam{.lr = 3e-3}, .seed = 1},
                        .where = {.devices = cpu_devices(1)}},
                       options);
  const Rectangles all = rectangles(towers.model().anchors);
  for (int step = 0; step < 70; ++step) towers.step(all.pictures, Detecting{loss});
  Ssd& model = towers.model();
  model.eval();
  const torch::NoGradGuard no_gradients;
  const auto found =
      detect(model.forward(all.pictures.images), model.anchors, {4, vision::ImageSize{1, 1}});
  for (std::size_t row = 0; row < found.size(); ++row) {
    ASSERT_FALSE(found[row].empty());
    const vision::Detection& best = found[row].front();
    const auto& [box, label] = all.things[row];
    EXPECT_EQ(best.label, label) << row;
    EXPECT_GT(best.score, 0.5) << row;
    EXPECT_GT(vision::overlap(best.box, {box.left, box.top, double{box.right} - box.left,
                                         double{box.bottom} - box.top}),
              0.7)
        << row;
  }
}

TEST_F(SsdLearns, FourPicturesByHeartWithMining) { expect_learnt({}, 0); }

TEST_F(SsdLearns, FourPicturesByHeartWithTheFocalLoss) {
  expect_learnt({.kind = SsdLossKind::focal, .background_as_zeros = true}, -4.6);
}

}  // namespace ssd_learns_test
