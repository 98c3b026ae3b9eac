#include "family_program.h"

#include <lockstep/error.h>

#include "families/list.h"
#include "recipe/family.h"
#include "serve/service.h"

namespace lockstep::apps {
namespace {

Optimizer optimizer_of(const OptimizerRecipe& recipe) {
  switch (recipe.name) {
    case OptimizerName::sgd:
    case OptimizerName::momentum:
      return Sgd{.lr = recipe.lr,
                 .momentum = recipe.momentum,
                 .nesterov = recipe.nesterov,
                 .weight_decay = recipe.weight_decay,
                 .dampening = recipe.dampening};
    case OptimizerName::adam:
      return Adam{.lr = recipe.lr,
                  .beta1 = recipe.beta1,
                  .beta2 = recipe.beta2,
                  .epsilon = recipe.epsilon,
                  .weight_decay = recipe.weight_decay,
                  .amsgrad = recipe.amsgrad};
    case OptimizerName::adamw:
      return AdamW{.lr = recipe.lr,
                   .beta1 = recipe.beta1,
                   .beta2 = recipe.beta2,
                   .epsilon = recipe.epsilon,
                   .weight_decay = recipe.weight_decay,
                   .amsgrad = recipe.amsgrad};
    case OptimizerName::rmsprop:
      return RmsProp{.lr = recipe.lr,
                     .decay = recipe.decay,
                     .epsilon = recipe.epsilon,
                     .momentum = recipe.momentum,
                     .weight_decay = recipe.weight_decay};
    case OptimizerName::tensorflow_rmsprop: {
      RmsProp optimizer =
          tensorflow_rms_prop(recipe.lr, recipe.decay, recipe.momentum, recipe.epsilon);
      optimizer.weight_decay = recipe.weight_decay;
      return optimizer;
    }
    case OptimizerName::adagrad:
      return Adagrad{
          .lr = recipe.lr, .epsilon = recipe.epsilon, .weight_decay = recipe.weight_decay};
  }
  throw ConfigError("an optimizer without a name");
}

Schedule schedule_of(const ScheduleRecipe& recipe, std::int64_t steps) {
  Schedule schedule{.warm_up = recipe.warm_up};
  switch (recipe.name) {
    case ScheduleName::constant:
      break;
    case ScheduleName::exponential:
      schedule.shape = ExponentialDecay{
          .rate = recipe.decay_rate, .steps = recipe.decay_steps, .staircase = recipe.staircase};
      break;
    case ScheduleName::piecewise:
      schedule.shape = Piecewise{.boundaries = recipe.boundaries, .factors = recipe.factors};
      break;
    case ScheduleName::cosine:
      if (recipe.decay_steps == 0 && steps == 0)
        throw ConfigError(
            "schedule.decay_steps = 0 lets a cosine end with the training, but neither train.steps "
            "nor train.epochs says when that is: give one of the three.");
      schedule.shape = Cosine{.steps = recipe.decay_steps > 0 ? recipe.decay_steps : steps,
                              .floor = recipe.floor};
      break;
    case ScheduleName::inverse_sqrt:
      schedule.shape = InverseSquareRoot{};
      break;
    case ScheduleName::plateau:
      schedule.shape = Plateau{.factor = recipe.factor, .patience = recipe.patience};
      break;
  }
  return schedule;
}

template <class Action>
void for_each_family(const Action& action) {
  std::apply(
      [&](auto... family) {
        (action(decltype(family)::recipe(), decltype(family)::program()), ...);
      },
      Families{});
}

FamilyProgram program_of(const Recipe& recipe) {
  FamilyProgram found;
  for_each_family([&](const Family& family, const FamilyProgram& program) {
    if (family.name == recipe.family) found = program;
  });
  return found;
}

}  // namespace

MirroredOptions strategy_options(const Recipe& recipe, std::vector<Device> devices) {
  const OptimizerRecipe& optimizer = recipe.optimizer;
  MirroredOptions options{.method = {.shards = recipe.shards,
                                     .optimizer = optimizer_of(optimizer),
                                     .clip = {.global_norm = optimizer.clip},
                                     .seed = static_cast<std::uint64_t>(recipe.seed),
                                     .precision = recipe.precision},
                          .where = {.devices = std::move(devices)}};
  if (optimizer.average > 0)
    options.method.moving_average =
        MovingAverage{.decay = optimizer.average, .warm_up = optimizer.average_warm_up};
  if (recipe.strategy == StrategyName::async) {
    const AsyncRecipe& async = recipe.async;
    options.method.async = {
        .order = async.order, .delay = async.delay, .compensation = async.compensation};
    if (async.staleness > 0) options.method.async->staleness = async.staleness;
  }
  return options;
}

TrainerOptions trainer_options(const Recipe& recipe, const Job& job) {
  const TrainRecipe& train = recipe.train;
  const EvaluateRecipe& evaluate = recipe.evaluate;
  const SaveRecipe& save = recipe.save;
  const Limits limits{
      .steps = train.steps, .epochs = train.epochs, .seconds = Seconds(train.seconds)};
  return {.limits = limits,
          .schedule = schedule_of(recipe.schedule, step_limit(limits, job.steps_per_epoch())),
          .report_every = train.report_every,
          .evaluate = {.steps = evaluate.every_steps,
                       .epochs = evaluate.every_epochs,
                       .seconds = Seconds(evaluate.every_seconds)},
          .averaged = evaluate.averaged,
          .goal = {.metric = evaluate.metric,
                   .higher_is_better = metric_of(recipe).higher_is_better,
                   .patience = evaluate.stop_after},
          .save = {.steps = save.every_steps, .seconds = Seconds(save.every_seconds)},
          .keep = {.last = save.keep_last,
                   .every_hours = save.keep_every_hours,
                   .best = save.keep_best},
          .weight_files = save.files,
          .recipe = print_recipe(recipe)};
}

std::vector<ParameterRule> undecayed(const torch::nn::Module& model) {
  std::vector<ParameterRule> rules;
  for (const auto& parameter : model.named_parameters())
    if (parameter.value().dim() <= 1)
      rules.push_back({.pattern = parameter.key(), .weight_decay = 0});
  return rules;
}

std::unique_ptr<Job> make_job(const Recipe& recipe, MirroredOptions options,
                              const JobFiles& files) {
  return program_of(recipe).make_job(recipe, std::move(options), files);
}

std::vector<std::string> weight_prefixes(const Recipe& recipe) {
  return program_of(recipe).weight_prefixes;
}

std::vector<std::string> fixed_fields(const Recipe& recipe) {
  return program_of(recipe).fixed_fields;
}

std::unique_ptr<Service> make_service(const Recipe& recipe, const ServeFlags& flags) {
  const auto make = program_of(recipe).make_service;
  if (!make) throw ConfigError("the family " + recipe.family + " has nothing to serve.");
  return make(flags);
}

void add_family_commands(CLI::App& app, Run& run) {
  for_each_family(
      [&](const Family&, const FamilyProgram& program) { program.add_commands(app, run); });
}

}  // namespace lockstep::apps
