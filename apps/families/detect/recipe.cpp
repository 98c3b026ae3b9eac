#include "families/detect/recipe.h"

#include "families/detect/family.h"
#include "recipe/family.h"

namespace lockstep::apps {
namespace {

Section box_data(DetectRecipe& own) {
  Section section{"data", "", {}};
  section
      .add("test_path", own.test_path,
           "coco: the JSON file to evaluate on; voc: the folder to evaluate on, if it is another "
           "one")
      .kinds = {"coco", "voc"};
  section
      .add("pictures", own.pictures,
           "coco: the folder that file names are relative to (empty: that of the JSON file)")
      .kinds = {"coco"};
  section
      .add("test_pictures", own.test_pictures,
           "coco: the same for test_path (empty: that of the JSON file)")
      .kinds = {"coco"};
  section
      .add("list", own.list,
           "voc: the list in ImageSets/Main to train on, such as train (empty: all XML files)")
      .kinds = {"voc"};
  section
      .add("test_list", own.test_list,
           "voc: the list in ImageSets/Main to evaluate on, such as val")
      .kinds = {"voc"};
  section
      .add("held_out", own.held_out,
           "share of the pictures to keep for evaluation, chosen by hash of the file name, when "
           "nothing else says what to evaluate on",
           from_to_below(0, 1))
      .kinds = {"coco", "voc", "yolo"};
  section.add("refuse_bad", own.refuse_bad,
              "stop at a picture that cannot be read, a box outside or without area, an unknown "
              "class or a duplicate (false: leave it out and count it)");
  add_rest(section, own.rest);
  return section;
}

Section augment(AugmentRecipe& own) {
  Section section{"augment", "Random changes of training pictures and their boxes.", {}};
  section.add("flip", own.flip, "mirror half of the pictures");
  section.add("crop", own.crop, "crop at random, as SSD does");
  section.add("expand", own.expand,
              "zoom out of half of the pictures, up to this many times as wide (1: off)",
              from_to(1, 10));
  section.add("jitter", own.jitter,
              "how far brightness, contrast and saturation may be from 1 (0: off)",
              from_to_below(0, 1));
  return section;
}

Section detector(DetectorRecipe& own) {
  Section section{"detector", "The model: SSD on a MobileNet.", {}};
  section.add_choice(
      "backbone", own.backbone,
      {{BackboneName::mobilenet_v1, "mobilenet_v1"}, {BackboneName::mobilenet_v2, "mobilenet_v2"}},
      "the network under the detector");
  section.add("width", own.width, "factor of the channels of every layer", from_to(0.1, 4));
  section.add("lite", own.lite, "SSDLite: depthwise convolutions in extra layers and heads");
  section.add("size", own.size, "width and height of the pictures as the model sees them",
              from_to(64, 2048));
  section.add_choice("pixels", own.pixels,
                     {{PixelScale::imagenet, "imagenet"}, {PixelScale::half, "half"}},
                     "how bytes become numbers: imagenet: by ImageNet's mean and deviation; half: "
                     "from -1 to 1");
  section.add("norm_momentum", own.norm_momentum,
              "batch norm: part of the running statistics that a step replaces",
              Range{.low = 0, .high = 1, .without_low = true});
  section.add("norm_epsilon", own.norm_epsilon, "batch norm: added to the variance", above(0));
  return section;
}

Section box_loss(BoxLossRecipe& own) {
  Section section{"loss", "Which anchors belong to things, and what is wrong with the rest.", {}};
  section.add_choice("name", own.name,
                     {{BoxLossName::mined, "mined"}, {BoxLossName::focal, "focal"}},
                     "mined: of positives and of the hardest negatives; focal: of all anchors");
  section.add("match_overlap", own.match_overlap,
              "least overlap of an anchor that belongs to a thing", from_to(0, 1));
  section.add("negatives", own.negatives, "mined: most negatives for each positive", at_least(0));
  section.add("min_negatives", own.min_negatives, "mined: least negatives in a picture",
              from_to(0, kMany));
  section.add("mining_overlap", own.mining_overlap,
              "mined: of predictions that overlap more, the one with the largest loss counts",
              from_to(0, 1));
  section.add("alpha", own.alpha, "focal: share of the things in the loss", from_to(0, 1));
  section.add("gamma", own.gamma, "focal: how little easy anchors count", at_least(0));
  section.add("background_as_zeros", own.background_as_zeros,
              "background is no class of its own: all scores are low there");
  section.add("class_bias", own.class_bias,
              "what the logits of classes start at; -4.6 suits the focal loss");
  section.add("localization", own.localization, "weight of the boxes' loss", at_least(0));
  section.add("classification", own.classification, "weight of the classes' loss", at_least(0));
  section.add("per_coordinate", own.per_coordinate, "divide the boxes' loss by 4");
  return section;
}

Section find(FindRecipe& own) {
  Section section{"find", "From scores to detections.", {}};
  section.add("score", own.score, "least score of a detection in an evaluation",
              from_to_below(0, 1));
  section.add("overlap", own.overlap,
              "of two detections of a class that overlap more, the one with the higher score stays",
              from_to(0, 1));
  section.add("most_per_class", own.most_per_class, "most detections of a class in a picture",
              from_to(1, kMany));
  section.add("most", own.most, "most detections in a picture", from_to(1, kMany));
  section.add("shown_score", own.shown_score,
              "least score in the pictures and in the confusion matrix of an evaluation",
              from_to(0, 1));
  return section;
}

std::optional<Problem> problem(const Recipe& recipe, const Names& name) {
  const auto& its = own<DetectRecipe>(recipe);
  const bool names_test = recipe.data.kind == "scenes" || recipe.data.kind == "yolo" ||
                          !its.test_path.empty() || !its.test_list.empty();
  if (!names_test && its.held_out == 0)
    return Problem{{&its.held_out, &its.test_path},
                   "is 0, and nothing else says what to evaluate on: set it, such as to 0.1, or "
                   "set " +
                       name(&its.test_path)};
  return std::nullopt;
}

}  // namespace

Family DetectFamily::recipe() {
  return {.name = "detect",
          .about = "finds things in pictures",
          .kinds = {{.name = "scenes",
                     .about = "scenes of cut-outs, made by `lockstep scenes`",
                     .installed = true},
                    {.name = "coco", .about = "COCO's JSON"},
                    {.name = "voc", .about = "a folder of pictures and VOC's XML"},
                    {.name = "yolo", .about = "YOLO's data.yaml and text files"}},
          .metrics = {{.name = "AP", .about = "COCO's mean average precision"},
                      {.name = "AP50", .about = "the same at an overlap of 0.5"},
                      {.name = "voc2007", .about = "VOC's mean average precision of 2007"},
                      {.name = "voc2010", .about = "VOC's mean average precision since 2010"},
                      {.name = "loss",
                       .about = "the loss of a matched anchor",
                       .higher_is_better = false}},
          .own = DetectRecipe{},
          .sections =
              [](std::any& sections) {
                auto& own = std::any_cast<DetectRecipe&>(sections);
                return std::vector{box_data(own), augment(own.augment), detector(own.detector),
                                   box_loss(own.loss), find(own.find)};
              },
          .problem = problem,
          .stages = {2}};
}

}  // namespace lockstep::apps
