#pragma once

// A family of trainings as a value: all that recipes have to know of it. What it makes of a recipe
// is in program.h. All families are in one list, families/list.h.

#include <any>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fields.h"
#include "rules.h"

namespace lockstep::apps {

/// A kind of data that a family can read: a value of data.kind.
struct DataKind {
  std::string name;
  std::string about;
  bool installed = false;  ///< it is found without data.path
};

/// A number that a family's evaluations give, to choose the best weights by: a value of
/// evaluate.metric.
struct Metric {
  std::string name;
  std::string about;
  bool higher_is_better = true;
};

struct Family {
  std::string name;             ///< "classify"
  std::string about;            ///< "puts images into classes"
  std::vector<DataKind> kinds;  ///< the first is the default
  std::vector<Metric> metrics;  ///< the first is the default
  std::any own;                 ///< the struct of its sections, with their defaults
  /// The fields of such a struct, which has to outlive them. A section that recipes have anyway,
  /// such as data, gets the fields as well.
  std::function<std::vector<Section>(std::any& own)> sections;
  /// The first rule of its own that a recipe does not keep.
  std::function<std::optional<Problem>(const Recipe& recipe, const Names& name)> problem;
  /// Of a pipeline, that its models can be cut into; empty: what they can be depends on the model.
  std::vector<int> stages = {};
  /// Makes a batch so many times as large where its own fields say how large it is.
  std::function<void(std::any& own, int times)> grow_batch = [](std::any&, int) {};
};

const std::vector<Family>& families();

/// Throws ConfigError for a name that is none.
const Family& family_named(const std::string& name);

/// The metric that evaluate.metric names.
const Metric& metric_of(const Recipe& recipe);

/// Makes the global batch so many times as large.
void grow_batch(Recipe& recipe, int times);

/// The sections of the recipe's own family: `own<ClassifyRecipe>(recipe).model`.
template <class Own>
const Own& own(const Recipe& recipe) {
  return std::any_cast<const Own&>(recipe.own);
}

}  // namespace lockstep::apps
