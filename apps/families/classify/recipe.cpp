#include "families/classify/recipe.h"

#include "families/classify/family.h"
#include "recipe/family.h"

namespace lockstep::apps {
namespace {

Section data(ClassifyRecipe& own) {
  Section section{"data", "", {}};
  section
      .add("test_path", own.test_path,
           "folder: the folder of the images to evaluate on; empty: what held_out says")
      .kinds = {"folder"};
  section
      .add("held_out", own.held_out,
           "folder: share of the images to keep for evaluation, chosen by hash of the file name, "
           "when test_path is empty",
           from_to_below(0, 1))
      .kinds = {"folder"};
  section
      .add("refuse_bad", own.refuse_bad,
           "folder: stop at an image that cannot be decoded (false: the next one stands in for it "
           "in training, it is left out of evaluations, and it is told)")
      .kinds = {"folder"};
  section.add("augment", own.augment, "crop and flip training images at random");
  section
      .add("size", own.size, "folder: width and height of the images, in pixels", from_to(8, 4096))
      .kinds = {"folder"};
  add_rest(section, own.rest);
  return section;
}

Section model(ModelRecipe& own) {
  Section section{"model", "The model.", {}};
  section.add_choice("name", own.name,
                     {{ModelName::convnet, "convnet"},
                      {ModelName::resnet20, "resnet20"},
                      {ModelName::resnet18, "resnet18"},
                      {ModelName::resnet50, "resnet50"}},
                     "convnet and resnet20 suit small images, resnet18 and resnet50 suit 224x224");
  section.add("width", own.width, "convnet: filters of the first layer", from_to(1, 4096));
  section.add("dropout", own.dropout, "convnet: share of values to drop", from_to_below(0, 1));
  return section;
}

std::optional<Problem> problem(const Recipe& recipe, const Names& name) {
  const auto& its = own<ClassifyRecipe>(recipe);
  if (recipe.data.kind != "folder") return std::nullopt;
  if (!its.test_path.empty() && its.held_out > 0)
    return Problem{{&its.held_out, &its.test_path},
                   "is for a recipe without " + name(&its.test_path) + ": set one of them only"};
  if (!its.test_path.empty() || its.held_out > 0) return std::nullopt;
  return Problem{{&its.test_path, &recipe.data.kind},
                 "is empty; set " + name(&its.test_path) +
                     " to a folder of images with one folder a class, or " + name(&its.held_out) +
                     " to a share of the images, such as 0.1"};
}

}  // namespace

Family ClassifyFamily::recipe() {
  return {
      .name = "classify",
      .about = "puts images into classes",
      .kinds = {{.name = "fashion_mnist", .about = "Fashion-MNIST's IDX files", .installed = true},
                {.name = "cifar10", .about = "CIFAR-10's binary files"},
                {.name = "folder",
                 .about = "JPEG and PNG images in a folder, with one folder a class"}},
      .metrics = {{.name = "accuracy", .about = "the share of images put into their class"},
                  {.name = "loss", .about = "the mean cross entropy", .higher_is_better = false}},
      .own = ClassifyRecipe{},
      .sections =
          [](std::any& sections) {
            auto& own = std::any_cast<ClassifyRecipe&>(sections);
            return std::vector{data(own), model(own.model)};
          },
      .problem = problem};
}

}  // namespace lockstep::apps
