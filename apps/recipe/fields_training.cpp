// The fields that are the same for every family: what it begins from, and how it is trained,
// evaluated, saved and logged.

#include "family.h"
#include "fields.h"

namespace lockstep::apps {
namespace {

Section init(InitRecipe& own) {
  Section section{
      "init", "What a new training begins from. A training that is resumed keeps what it has.", {}};
  section.add(
      "weights", own.weights,
      "begin from these weights: a safetensors file, a run or checkpoint of another training, or "
      "mobilenet_v2, which scripts/setup --scenes installs; weights whose names and shapes fit are "
      "taken, and the others are told "
      "(empty: initial weights by the seed)");
  section.add("freeze", own.freeze,
              "patterns of names of parameters that are not trained, in which * stands for any "
              "text, such as backbone.*; batch normalisation in frozen layers still follows the "
              "statistics of its input");
  section.add("checksum", own.checksum,
              "SHA-256 of what init.weights names; filled in when a training begins, and when it "
              "is stated, other weights are refused");
  return section;
}

Section async(AsyncRecipe& own) {
  Section section{"async", "How late gradients may be applied, for strategy = \"async\" only.", {}};
  section.add_choice("order", own.order, {{Order::delay, "delay"}, {Order::free, "free"}},
                     "delay: apply gradients in the order of the batches, so that the number of "
                     "devices does not change the result; free: apply them as they arrive, so that "
                     "the result depends on the speed of the devices");
  section.add("delay", own.delay,
              "delay: updates between the weights that a gradient is computed with and its own "
              "update; delay + 1 devices compute at the same time",
              from_to(0, 1024));
  section.add("staleness", own.staleness,
              "free: the most updates between the weights that a gradient is computed with and its "
              "own update (0: no bound)",
              from_to(0, kMany));
  section.add("compensation", own.compensation,
              "strength of delay compensation, DC-ASGD's lambda, such as 0.04 (0: off)",
              from_to_below(0, kMany));
  return section;
}

Section pipeline(PipelineRecipe& own) {
  Section section{
      "pipeline",
      "How to cut the model, for strategy = \"pipeline\" only. No field changes the result.",
      {}};
  section.add("stages", own.stages,
              "parts of the model, each on a device of its own; the number of devices is a "
              "multiple of it, or 1, which has the whole model; classify: as many as its model has "
              "layers or blocks; seq2seq: 2 (encode; decode and project) or 3 (encode, decode, "
              "project); detect: 2 (backbone; the rest)",
              from_to(2, 1024));
  section.add("recompute", own.recompute,
              "compute a stage again for its backward pass instead of keeping what it computed: "
              "less memory, about a third more time");
  section.add("ahead", own.ahead,
              "more shards in flight, at each stage as many for each stage that follows: hides "
              "copies over slow links, takes memory",
              from_to(0, 1024));
  return section;
}

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
  section.add("amsgrad", own.amsgrad, "adam and adamw: divide by the largest mean square so far");
  section.add(
      "dampening", own.dampening,
      "sgd and momentum: the gradient counts 1 - dampening in the momentum, after the first "
      "update; 0 with nesterov",
      from_to(0, 1));
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
                     "the optimizer; rmsprop is PyTorch's, tensorflow_rmsprop TensorFlow's");
  section.add("lr", own.lr, "learning rate, before the schedule's factor", above(0));
  section.add("momentum", own.momentum, "momentum of sgd, momentum, rmsprop and tensorflow_rmsprop",
              from_to_below(0, 1));
  section.add("nesterov", own.nesterov, "sgd and momentum: use Nesterov's momentum");
  section.add("weight_decay", own.weight_decay,
              "L2 penalty, added to the gradient; adamw shrinks the weights instead", at_least(0));
  section.add("decay_biases_and_norms", own.decay_biases_and_norms,
              "apply weight decay to biases and normalisation layers too");
  section.add("clip", own.clip, "largest global norm of the gradient (0: no clipping)",
              at_least(0));
  section.add("average", own.average, "decay of a moving average of the weights (0: off)",
              from_to_below(0, 1));
  section.add("average_warm_up", own.average_warm_up,
              "start with a lower decay: min(average, (1 + step) / (10 + step))");
  add_constants(section, own);
  return section;
}

Section schedule(ScheduleRecipe& own) {
  Section section{"schedule", "A factor for the learning rate that changes with the step.", {}};
  section.add_choice("name", own.name,
                     {{ScheduleName::constant, "constant"},
                      {ScheduleName::exponential, "exponential"},
                      {ScheduleName::piecewise, "piecewise"},
                      {ScheduleName::cosine, "cosine"},
                      {ScheduleName::inverse_sqrt, "inverse_sqrt"},
                      {ScheduleName::plateau, "plateau"}},
                     "how the factor changes after the warm-up");
  section.add("warm_up", own.warm_up, "steps over which the factor rises from 0 to 1", at_least(0));
  section.add("decay_rate", own.decay_rate,
              "exponential: multiply the factor by this once every decay_steps", above(0));
  section.add("decay_steps", own.decay_steps,
              "exponential: steps for one decay_rate; cosine: the step at which it ends (0: the "
              "last step of the training)",
              at_least(0));
  section.add("staircase", own.staircase,
              "exponential: decay in whole jumps, once every decay_steps");
  section.add("boundaries", own.boundaries,
              "piecewise: steps at which the next factor starts; ascending", at_least(1));
  section.add("factors", own.factors, "piecewise: the factors; one more than boundaries",
              at_least(0));
  section.add("floor", own.floor, "cosine: the factor at the end", from_to(0, 1));
  section.add(
      "patience", own.patience,
      "plateau: reduce the rate when the training loss exceeds each of the last `patience` reports",
      from_to(1, kMany));
  section.add("factor", own.factor, "plateau: multiply the learning rate by this",
              Range{.low = 0, .high = 1, .without_low = true, .without_high = true});
  return section;
}

Section train(TrainRecipe& own) {
  Section section{
      "train", "When to stop: at the first limit that is reached. Set at least one.", {}};
  section.add("steps", own.steps, "steps, skipped ones included (0: no limit)", at_least(0));
  section.add("epochs", own.epochs, "passes over the training data (0: no limit)",
              from_to(0, kMany));
  section.add("seconds", own.seconds, "seconds of training, summed over all sessions (0: no limit)",
              at_least(0));
  section.add("report_every", own.report_every, "steps between two reports", at_least(1));
  return section;
}

Section evaluate(EvaluateRecipe& own, const Family& family) {
  Section section{"evaluate", "When to evaluate. An evaluation always runs at the end.", {}};
  section.add("every_steps", own.every_steps, "evaluate every so many steps (0: off)", at_least(0));
  section.add("every_seconds", own.every_seconds, "evaluate every so many seconds (0: off)",
              at_least(0));
  section.add("every_epochs", own.every_epochs, "evaluate every so many epochs (0: off)",
              at_least(0));
  section.add("averaged", own.averaged,
              "evaluate the moving average of the weights (needs optimizer.average)");
  std::vector<std::string> metrics;
  std::string help = "what decides which weights are best:";
  for (const Metric& metric : family.metrics) {
    help += (metrics.empty() ? " " : "; ") + metric.name + ", " + metric.about + ", " +
            (metric.higher_is_better ? "higher" : "lower") + " is better";
    metrics.push_back(metric.name);
  }
  add_words(section, "metric", own.metric, metrics, help).of_family = true;
  section.add(
      "stop_after", own.stop_after,
      "early stopping: end after this many evaluations in a row without a new best (0: off)",
      from_to(0, kMany));
  return section;
}

Section save(SaveRecipe& own) {
  Section section{
      "save",
      "When to write checkpoints, and which to keep. A checkpoint is always written at the end.",
      {}};
  section.add("every_steps", own.every_steps, "save every so many steps (0: off)", at_least(0));
  section.add("every_seconds", own.every_seconds, "save every so many seconds (0: off)",
              at_least(0));
  section.add("keep_last", own.keep_last, "keep this many of the newest checkpoints",
              from_to(1, kMany));
  section.add("keep_every_hours", own.keep_every_hours,
              "also keep one checkpoint every so many hours (0: off)", at_least(0));
  section.add("keep_best", own.keep_best,
              "also keep this many of the best checkpoints by evaluate.metric (0: off)",
              from_to(0, kMany));
  section.add("files", own.files, "spread the weights over this many files", from_to(1, 1024));
  return section;
}

Section log(LogRecipe& own) {
  Section section{"log", "What to write for people to look at.", {}};
  section.add("tensorboard", own.tensorboard,
              "write event files for TensorBoard into the run folder");
  section.add("csv", own.csv,
              "write all losses and metrics to metrics.csv in the run folder, a line each");
  section.add("pictures", own.pictures,
              "also write the pictures of the input and of the last evaluation as PNG into the "
              "folder pictures of the run");
  section.add("histograms_every", own.histograms_every,
              "write histograms of the parameters every so many steps (0: off)", at_least(0));
  return section;
}

}  // namespace

std::vector<Section> training_sections(Recipe& recipe) {
  return {init(recipe.init),
          optimizer(recipe.optimizer),
          schedule(recipe.schedule),
          async(recipe.async),
          pipeline(recipe.pipeline),
          train(recipe.train),
          evaluate(recipe.evaluate, family_named(recipe.family)),
          save(recipe.save),
          log(recipe.log)};
}

}  // namespace lockstep::apps
