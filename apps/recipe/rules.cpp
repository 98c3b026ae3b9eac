#include "rules.h"

#include <algorithm>
#include <functional>

namespace lockstep::apps {
namespace {

/// The name of a field by its address.
using Names = std::function<std::string(const void*)>;

bool is_text(DataKind kind) {
  return kind == DataKind::tsv || kind == DataKind::parallel || kind == DataKind::chatterbot ||
         kind == DataKind::gettext;
}

std::optional<Problem> kind_problem(const Recipe& recipe, const Names& name) {
  const bool texts = recipe.family == Family::seq2seq;
  if (is_text(recipe.data.kind) == texts) return std::nullopt;
  return Problem{
      {&recipe.data.kind, &recipe.family},
      std::string("has to be ") +
          (texts ? "tsv, parallel, chatterbot or gettext" : "fashion_mnist, cifar10 or folder") +
          " for this " + name(&recipe.family)};
}

std::optional<Problem> data_problem(const DataRecipe& data, const Names& name) {
  const bool installed = data.kind == DataKind::fashion_mnist ||
                         data.kind == DataKind::chatterbot || data.kind == DataKind::gettext;
  if (data.path.empty() && !installed)
    return Problem{{&data.path, &data.kind},
                   "is empty, and only fashion_mnist, chatterbot and gettext have a folder of "
                   "their own; set " +
                       name(&data.path) + " to the training data"};
  if (data.kind == DataKind::parallel && data.target_path.empty())
    return Problem{{&data.target_path, &data.kind},
                   "is empty; set " + name(&data.target_path) + " to the file of the targets"};
  if (data.kind == DataKind::parallel && data.test_path.empty() != data.test_target_path.empty())
    return Problem{{&data.test_target_path, &data.test_path},
                   "and " + name(&data.test_path) + " belong together: set both, or none"};
  if (data.kind == DataKind::folder && data.test_path.empty())
    return Problem{{&data.test_path, &data.kind},
                   "is empty; set " + name(&data.test_path) +
                       " to a folder of images with one folder a class"};
  return std::nullopt;
}

std::optional<Problem> text_problem(const Recipe& recipe, const Names& name) {
  const TextRecipe& text = recipe.text;
  if (recipe.family != Family::seq2seq) return std::nullopt;
  for (const auto* lengths : {&text.source_lengths, &text.target_lengths})
    if (lengths->empty() || !std::ranges::is_sorted(*lengths))
      return Problem{{lengths}, "has to have at least one number, and to ascend"};
  if (text.source_lengths.size() != text.target_lengths.size())
    return Problem{{&text.target_lengths, &text.source_lengths},
                   "has " + std::to_string(text.target_lengths.size()) + " numbers and " +
                       name(&text.source_lengths) + " has " +
                       std::to_string(text.source_lengths.size()) +
                       "; a bucket is one of each: give as many"};
  if (recipe.seq2seq.label_smoothing > 0 && recipe.seq2seq.samples > 0)
    return Problem{{&recipe.seq2seq.label_smoothing, &recipe.seq2seq.samples},
                   "does not go with " + name(&recipe.seq2seq.samples) +
                       ", which leaves out most of the tokens: set one of them to 0"};
  if (recipe.seq2seq.bidirectional && recipe.seq2seq.hidden % 2 != 0)
    return Problem{{&recipe.seq2seq.hidden, &recipe.seq2seq.bidirectional},
                   "has to be even, for each direction has half of it"};
  return std::nullopt;
}

std::optional<Problem> metric_problem(const Recipe& recipe, const Names& name) {
  const bool texts = recipe.family == Family::seq2seq;
  const Metric metric = recipe.evaluate.metric;
  if (metric == Metric::loss || (metric == Metric::accuracy) != texts) {
    if (!texts || metric == Metric::loss || recipe.decode.tested > 0) return std::nullopt;
    return Problem{{&recipe.decode.tested, &recipe.evaluate.metric},
                   "is 0, and " + name(&recipe.evaluate.metric) +
                       " is of texts that an evaluation writes: set it, such as to 500"};
  }
  return Problem{{&recipe.evaluate.metric, &recipe.family},
                 std::string("has to be ") + (texts ? "loss, exact or bleu" : "accuracy or loss") +
                     " for this " + name(&recipe.family)};
}

std::optional<Problem> optimizer_problem(const OptimizerRecipe& optimizer, const Names& name) {
  if (optimizer.name == OptimizerName::momentum && optimizer.momentum == 0)
    return Problem{{&optimizer.momentum, &optimizer.name},
                   "is 0, and " + name(&optimizer.name) +
                       " is momentum, which needs it above 0, such as 0.9; without it, it is sgd"};
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
  const bool higher_is_better = recipe.evaluate.metric != Metric::loss;
  if ((recipe.evaluate.better == Better::higher) != higher_is_better)
    return Problem{{&recipe.evaluate.better, &recipe.evaluate.metric},
                   std::string("has to be ") + (higher_is_better ? "higher" : "lower") +
                       " for this " + name(&recipe.evaluate.metric) +
                       ", or the worst weights would be kept"};
  return std::nullopt;
}

}  // namespace

std::optional<Problem> first_problem(const Recipe& recipe, const std::vector<Section>& sections) {
  const Names name = [&](const void* address) { return name_of(sections, address); };
  std::optional<Problem> problem = kind_problem(recipe, name);
  if (!problem) problem = data_problem(recipe.data, name);
  if (!problem) problem = text_problem(recipe, name);
  if (!problem) problem = metric_problem(recipe, name);
  if (!problem) problem = optimizer_problem(recipe.optimizer, name);
  if (!problem) problem = schedule_problem(recipe, name);
  if (!problem) problem = train_problem(recipe.train, name);
  if (!problem) problem = evaluate_problem(recipe, name);
  return problem;
}

}  // namespace lockstep::apps
