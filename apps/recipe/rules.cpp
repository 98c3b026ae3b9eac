#include "rules.h"

#include <algorithm>

#include "family.h"
#include "words.h"

namespace lockstep::apps {
namespace {

/// A choice, by address, that has to be one of these words for a field to be read.
using Condition = std::pair<const void*, std::vector<std::string>>;

std::vector<Condition> conditions_of(const Field& field, const Section& section,
                                     const Recipe& recipe) {
  std::vector<Condition> all;
  if (!field.kinds.empty()) all.emplace_back(&recipe.data.kind, field.kinds);
  for (const std::string strategy : {"async", "pipeline"})
    if (section.name == strategy) all.push_back({&recipe.strategy, {strategy}});
  if (field.address == &recipe.async.delay) all.push_back({&recipe.async.order, {"delay"}});
  if (field.address == &recipe.async.staleness) all.push_back({&recipe.async.order, {"free"}});
  return all;
}

/// The first condition that is not met, as a problem.
std::optional<Problem> unmet_condition(const Field& field, const Section& section,
                                       const Recipe& recipe, const std::vector<Section>& sections) {
  for (const auto& [other, words] : conditions_of(field, section, recipe)) {
    const std::string name = name_of(sections, other);
    const auto& choice = std::get<Choice>(find_field(sections, name)->target);
    const std::string& word = choice.words.at(choice.chosen());
    if (std::ranges::count(words, word) > 0) continue;
    return Problem{{field.address, other},
                   "is read only when " + name + " is " + listed(words) + ", and it is " + word +
                       ": leave it out"};
  }
  return std::nullopt;
}

std::optional<Problem> path_problem(const DataRecipe& data, const Family& family,
                                    const Names& name) {
  std::vector<std::string> installed;
  for (const DataKind& kind : family.kinds)
    if (kind.installed) installed.push_back(kind.name);
  if (!data.path.empty() || std::ranges::count(installed, data.kind) > 0) return std::nullopt;
  return Problem{{&data.path, &data.kind},
                 "is empty" +
                     (installed.empty()
                          ? ""
                          : ", and of the kinds of data only these have a folder of their own: " +
                                listed(installed)) +
                     "; set " + name(&data.path) + " to the training data"};
}

std::optional<Problem> stages_problem(const Recipe& recipe, const Family& family) {
  const int& stages = recipe.pipeline.stages;
  if (recipe.strategy != StrategyName::pipeline || family.stages.empty() ||
      std::ranges::count(family.stages, stages) > 0)
    return std::nullopt;
  std::string possible;
  for (const int number : family.stages)
    possible += (possible.empty() ? "" : " or ") + std::to_string(number);
  return Problem{{&stages, &recipe.strategy},
                 "is " + std::to_string(stages) + ", and models of the family " + family.name +
                     " are cut into " + possible + "; set it to " + possible};
}

std::optional<Problem> init_problem(const InitRecipe& init, const Names& name) {
  if (init.checksum.empty() || !init.weights.empty()) return std::nullopt;
  return Problem{
      {&init.checksum, &init.weights},
      "is the checksum of nothing, for " + name(&init.weights) + " is empty; leave it out"};
}

std::optional<Problem> optimizer_problem(const OptimizerRecipe& optimizer, const Names& name) {
  if (optimizer.name == OptimizerName::momentum && optimizer.momentum == 0)
    return Problem{{&optimizer.momentum, &optimizer.name},
                   "is 0, and " + name(&optimizer.name) +
                       " is momentum, which needs it above 0, such as 0.9; without it, it is sgd"};
  if (optimizer.nesterov && optimizer.dampening != 0)
    return Problem{{&optimizer.dampening, &optimizer.nesterov},
                   "is not 0, and " + name(&optimizer.nesterov) +
                       " is true, which needs it to be; set one of them back"};
  return std::nullopt;
}

std::optional<Problem> piecewise_problem(const ScheduleRecipe& schedule, const Names& name) {
  const auto& boundaries = schedule.boundaries;
  const auto not_ascending = std::adjacent_find(boundaries.begin(), boundaries.end(),
                                                [](auto a, auto b) { return a >= b; });
  if (not_ascending != boundaries.end())
    return Problem{{&boundaries},
                   "has to ascend, and " + std::to_string(*(not_ascending + 1)) + " comes after " +
                       std::to_string(*not_ascending)};
  if (schedule.factors.size() != boundaries.size() + 1)
    return Problem{{&schedule.factors, &boundaries, &schedule.name},
                   "has " + std::to_string(schedule.factors.size()) + " numbers and " +
                       name(&boundaries) + " has " + std::to_string(boundaries.size()) +
                       "; one more than boundaries is needed: the first counts from step 0"};
  return std::nullopt;
}

std::optional<Problem> schedule_problem(const Recipe& recipe, const Names& name) {
  const ScheduleRecipe& schedule = recipe.schedule;
  if (schedule.name == ScheduleName::piecewise) return piecewise_problem(schedule, name);
  if (schedule.name == ScheduleName::exponential && schedule.decay_steps == 0)
    return Problem{
        {&schedule.decay_steps, &schedule.name},
        "is 0, and exponential needs it above 0: the steps for one " + name(&schedule.decay_rate)};
  if (schedule.name == ScheduleName::cosine && schedule.decay_steps == 0 &&
      recipe.train.steps == 0 && recipe.train.epochs == 0)
    return Problem{{&schedule.decay_steps, &schedule.name},
                   "is 0, and cosine has to know where it ends: set it, or " +
                       name(&recipe.train.steps) + ", or " + name(&recipe.train.epochs)};
  return std::nullopt;
}

std::optional<Problem> train_problem(const TrainRecipe& train, const Names& name) {
  if (train.steps > 0 || train.epochs > 0 || train.seconds > 0) return std::nullopt;
  return Problem{{&train.steps, &train.epochs, &train.seconds},
                 "is 0, as are all limits, and the training would never end; set at least one of " +
                     name(&train.steps) + ", " + name(&train.epochs) + " and " +
                     name(&train.seconds)};
}

std::optional<Problem> evaluate_problem(const Recipe& recipe, const Names& name) {
  if (recipe.evaluate.averaged && recipe.optimizer.average == 0)
    return Problem{{&recipe.evaluate.averaged, &recipe.optimizer.average},
                   "is true, and there is no moving average: set " +
                       name(&recipe.optimizer.average) + ", such as to 0.999"};
  return std::nullopt;
}

}  // namespace

std::optional<Problem> unread_field(const Recipe& recipe, const std::vector<Section>& sections) {
  Recipe defaults(recipe.family);
  const auto unset = apps::sections(defaults);
  for (const Section& section : sections)
    for (const Field& field : section.fields)
      if (text_of(field) != text_of(*find_field(unset, field.name)))
        if (auto problem = unmet_condition(field, section, recipe, sections)) return problem;
  return std::nullopt;
}

bool is_read(const Field& field, const Section& section, const Recipe& recipe,
             const std::vector<Section>& sections) {
  return !unmet_condition(field, section, recipe, sections);
}

std::optional<Problem> first_problem(const Recipe& recipe, const std::vector<Section>& sections) {
  const Names name = [&](const void* address) { return name_of(sections, address); };
  const Family& family = family_named(recipe.family);
  std::optional<Problem> problem = path_problem(recipe.data, family, name);
  if (!problem) problem = family.problem(recipe, name);
  if (!problem) problem = stages_problem(recipe, family);
  if (!problem) problem = init_problem(recipe.init, name);
  if (!problem) problem = optimizer_problem(recipe.optimizer, name);
  if (!problem) problem = schedule_problem(recipe, name);
  if (!problem) problem = train_problem(recipe.train, name);
  if (!problem) problem = evaluate_problem(recipe, name);
  return problem;
}

}  // namespace lockstep::apps
