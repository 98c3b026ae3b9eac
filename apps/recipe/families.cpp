#include <lockstep/error.h>

#include <algorithm>

#include "families/list.h"
#include "family.h"

namespace lockstep::apps {

const std::vector<Family>& families() {
  static const auto all =
      std::apply([](auto... family) { return std::vector<Family>{decltype(family)::recipe()...}; },
                 Families{});
  return all;
}

const Family& family_named(const std::string& name) {
  const auto found = std::ranges::find(families(), name, &Family::name);
  if (found == families().end()) throw ConfigError("there is no family '" + name + "'");
  return *found;
}

const Metric& metric_of(const Recipe& recipe) {
  const Family& family = family_named(recipe.family);
  const auto found = std::ranges::find(family.metrics, recipe.evaluate.metric, &Metric::name);
  if (found == family.metrics.end())
    throw ConfigError("the family " + family.name + " has no metric '" + recipe.evaluate.metric +
                      "'");
  return *found;
}

void grow_batch(Recipe& recipe, int times) {
  recipe.data.batch *= times;
  family_named(recipe.family).grow_batch(recipe.own, times);
}

Recipe::Recipe() : Recipe(families().front().name) {}

Recipe::Recipe(const std::string& family_name) : family(family_name) {
  const Family& its = family_named(family);
  data.kind = its.kinds.front().name;
  evaluate.metric = its.metrics.front().name;
  own = its.own;
}

}  // namespace lockstep::apps
