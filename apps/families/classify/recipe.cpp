#include "families/classify/recipe.h"

#include "families/classify/family.h"
#include "recipe/family.h"

namespace lockstep::apps {
namespace {

Section data(ClassifyRecipe& own) {
  Section section{"data", "", {}};
  section.add("test_path", own.test_path, "of kind folder: the folder of the images to evaluate on")
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
  const auto& test_path = own<ClassifyRecipe>(recipe).test_path;
  if (recipe.data.kind != "folder" || !test_path.empty()) return std::nullopt;
  return Problem{
      {&test_path, &recipe.data.kind},
      "is empty; set " + name(&test_path) + " to a folder of images with one folder a class"};
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
