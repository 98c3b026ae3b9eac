// The fields that are the same for every family: how it is trained, evaluated, saved and logged.

#include "family.h"
#include "fields.h"

namespace lockstep::apps {
namespace {

void add_constants(Section& section, OptimizerRecipe& own) {
  section.add("beta1", own.beta1, "of adam and adamw: decay of the mean", from_to_below(0, 1));
  section.add("beta2", own.beta2, "of adam and adamw: decay of the mean square",
              from_to_below(0, 1));
  section.add("epsilon", own.epsilon,
              "of all but sgd and momentum: keeps the divisor away from 0; PyTorch has 1e-8, and "
              "1e-10 for adagrad, TensorFlow's RMSprop 1e-10",
              above(0));
  section.add("decay", own.decay,
              "of rmsprop and tensorflow_rmsprop: decay of the mean square; PyTorch has 0.99, "
              "TensorFlow 0.9",
              from_to_below(0, 1));
}

Section optimizer(OptimizerRecipe& own) {
  Section section{"optimizer", "How gradients become updates.", {}};
  section.add_choice("name", own.name,
                     {{OptimizerName::sgd, "sgd"},
                      {OptimizerName::momentum, "momentum"},
                      {OptimizerName::adam, "adam"},
                      {OptimizerName::adamw, "adamw"},
                      {OptimizerName::rmsprop, "rmsprop"},
                      {OptimizerName::tensorflow_rmsprop, "tensorflow_rmsprop"},
                      {OptimizerName::adagrad, "adagrad"}},
                     "the rule; rmsprop is PyTorch's");
  section.add("lr", own.lr, "learning rate, before the schedule's factor", above(0));
  section.add("momentum", own.momentum, "of sgd, momentum, rmsprop and tensorflow_rmsprop",
              from_to_below(0, 1));
  section.add("nesterov", own.nesterov, "of sgd and momentum: look ahead, as Nesterov");
  section.add("weight_decay", own.weight_decay,
              "added to the gradient as L2; adamw shrinks the weights instead", at_least(0));
  section.add("decay_biases_and_norms", own.decay_biases_and_norms,
              "false: no weight decay for biases and for the weights of norms: all that has one "
              "dimension");
  section.add("clip", own.clip, "largest global norm of the gradient; 0: any", at_least(0));
  section.add("average", own.average, "decay of a moving average of the weights; 0: none",
              from_to_below(0, 1));
  section.add("average_warm_up", own.average_warm_up,
              "the average's decay starts low: min(average, (1 + step) / (10 + step))");
  add_constants(section, own);
  return section;
}

Section schedule(ScheduleRecipe& own) {
  Section section{"schedule", "A factor for the learning rate, by step.", {}};
  section.add_choice("name", own.name,
                     {{ScheduleName::constant, "constant"},
                      {ScheduleName::exponential, "exponential"},
                      {ScheduleName::piecewise, "piecewise"},
                      {ScheduleName::cosine, "cosine"},
                      {ScheduleName::inverse_sqrt, "inverse_sqrt"},
                      {ScheduleName::plateau, "plateau"}},
                     "how the factor goes after the warm-up");
  section.add("warm_up", own.warm_up, "steps over which the factor rises from 0 to 1", at_least(0));
  section.add("decay_rate", own.decay_rate, "of exponential: the factor's factor", above(0));
  section.add("decay_steps", own.decay_steps,
              "of exponential: steps for one decay_rate; of cosine: the step where it ends, 0: the "
              "last of the training",
              at_least(0));
  section.add("staircase", own.staircase, "of exponential: only at whole decay_steps");
  section.add("boundaries", own.boundaries,
              "of piecewise: steps at which the next factor begins, ascending", at_least(1));
  section.add("factors", own.factors, "of piecewise: one more than boundaries", at_least(0));
  section.add("floor", own.floor, "of cosine: the factor at its end", from_to(0, 1));
  section.add(
      "patience", own.patience,
      "of plateau: apply the factor when the training loss exceeds each of the last so many "
      "reports",
      from_to(1, kMany));
  section.add("factor", own.factor, "of plateau: what the learning rate is multiplied by",
              Range{.low = 0, .high = 1, .without_low = true, .without_high = true});
  return section;
}

Section train(TrainRecipe& own) {
  Section section{
      "train", "When it ends: at the first limit reached. At least one has to be set.", {}};
  section.add("steps", own.steps, "optimizer updates, skipped ones included; 0: no limit",
              at_least(0));
  section.add("epochs", own.epochs, "times through the training data; 0: no limit",
              from_to(0, kMany));
  section.add("seconds", own.seconds, "of training, over all starts; 0: no limit", at_least(0));
  section.add("report_every", own.report_every, "steps from report to report", at_least(1));
  return section;
}

Section evaluate(EvaluateRecipe& own, const Family& family) {
  Section section{"evaluate", "When to evaluate. An evaluation always runs at the end.", {}};
  section.add("every_steps", own.every_steps,
              "steps from one evaluation to the next; 0: not by steps", at_least(0));
  section.add("every_seconds", own.every_seconds,
              "seconds from one evaluation to the next; 0: not by time", at_least(0));
  section.add("every_epochs", own.every_epochs,
              "epochs from one evaluation to the next; 0: not by epochs", at_least(0));
  section.add("averaged", own.averaged,
              "evaluate the moving average of the weights (optimizer.average) in their place");
  std::vector<std::string> metrics;
  std::string help = "what decides which weights are best:";
  for (const Metric& metric : family.metrics) {
    help += (metrics.empty() ? " " : "; ") + metric.name + ", " + metric.about + ", " +
            (metric.higher_is_better ? "higher" : "lower") + " is better";
    metrics.push_back(metric.name);
  }
  add_words(section, "metric", own.metric, metrics, help).of_family = true;
  section.add("stop_after", own.stop_after,
              "end the training after so many evaluations in a row without a better one; 0: never",
              from_to(0, kMany));
  return section;
}

Section save(SaveRecipe& own) {
  Section section{"save", "Checkpoints: when they are written and which are kept.", {}};
  section.add("every_steps", own.every_steps,
              "steps from one checkpoint to the next; 0: not by steps", at_least(0));
  section.add("every_seconds", own.every_seconds,
              "seconds from one checkpoint to the next; 0: not by time", at_least(0));
  section.add("keep_last", own.keep_last, "how many of the newest are kept", from_to(1, kMany));
  section.add("keep_every_hours", own.keep_every_hours,
              "also keep one checkpoint every so many hours; 0: none", at_least(0));
  section.add("keep_best", own.keep_best,
              "also keep so many of the best by evaluate.metric; 0: none", from_to(0, kMany));
  section.add("files", own.files, "files that the weights are spread over", from_to(1, 1024));
  return section;
}

Section log(LogRecipe& own) {
  Section section{"log", "What is written for TensorBoard.", {}};
  section.add("tensorboard", own.tensorboard, "write event files into the run directory");
  section.add("histograms_every", own.histograms_every,
              "steps from one set of histograms of the parameters to the next; 0: none",
              at_least(0));
  return section;
}

}  // namespace

std::vector<Section> training_sections(Recipe& recipe) {
  return {optimizer(recipe.optimizer), schedule(recipe.schedule),
          train(recipe.train),         evaluate(recipe.evaluate, family_named(recipe.family)),
          save(recipe.save),           log(recipe.log)};
}

}  // namespace lockstep::apps
