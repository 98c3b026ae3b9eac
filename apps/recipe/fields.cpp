#include "fields.h"

namespace lockstep::apps {
namespace {

constexpr int kMany = 1'000'000;

Range at_least(double low) { return {.low = low}; }
Range above(double low) { return {.low = low, .without_low = true}; }
Range from_to(double low, double high) { return {.low = low, .high = high}; }
Range from_to_below(double low, double high) {
  return {.low = low, .high = high, .without_high = true};
}

Section top(Recipe& own) {
  Section section{"", "The training as a whole.", {}};
  section.add_choice("family", own.family, {{Family::classify, "classify"}},
                     "what is trained: classify puts images into classes");
  section.add("seed", own.seed,
              "of initial weights, dropout, order of the data and augmentation; the same seed and "
              "shards give the same result",
              at_least(0));
  section.add("shards", own.shards,
              "parts of the global batch: what the result depends on, where the number of devices "
              "does not matter; 0: as many as devices at the first start, at least 4, and then "
              "what the checkpoint says",
              from_to(0, 65536));
  section.add_choice("precision", own.precision,
                     {{Precision::float32, "float32"},
                      {Precision::bfloat16, "bfloat16"},
                      {Precision::float16, "float16"}},
                     "of forward and backward; the weights stay float32");
  return section;
}

Section data(DataRecipe& own) {
  Section section{"data", "What it is trained on.", {}};
  section.add_choice("kind", own.kind,
                     {{DataKind::fashion_mnist, "fashion_mnist"},
                      {DataKind::cifar10, "cifar10"},
                      {DataKind::folder, "folder"}},
                     "the format: Fashion-MNIST's IDX files, CIFAR-10's binary files, or a folder "
                     "of JPEG and PNG images with one folder a class");
  section.add("path", own.path,
              "folder of the data; empty, for fashion_mnist only: where Debian's package "
              "dataset-fashion-mnist puts it");
  section.add("test_path", own.test_path, "of kind folder: the folder of the test images");
  section.add("batch", own.batch, "images of a step, over all devices", from_to(1, 1 << 20));
  section.add("test_batch", own.test_batch, "images at one go when evaluating",
              from_to(1, 1 << 20));
  section.add("augment", own.augment, "crop and flip the training images at random");
  section.add("size", own.size, "of kind folder: side of the images, in pixels", from_to(8, 4096));
  section.add("workers", own.workers, "threads that read and augment images", from_to(1, 1024));
  section.add("prefetch", own.prefetch, "batches made ahead", from_to(1, 1024));
  return section;
}

Section model(ModelRecipe& own) {
  Section section{"model", "What is trained.", {}};
  section.add_choice(
      "name", own.name,
      {{ModelName::convnet, "convnet"},
       {ModelName::resnet20, "resnet20"},
       {ModelName::resnet18, "resnet18"},
       {ModelName::resnet50, "resnet50"}},
      "convnet and resnet20 are for small images, resnet18 and resnet50 for 224x224");
  section.add("width", own.width, "of convnet: filters of the first layer", from_to(1, 4096));
  section.add("dropout", own.dropout, "of convnet: share of values dropped", from_to_below(0, 1));
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
              "false: no weight decay for biases and for the weights of norms");
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
  section.add("patience", own.patience,
              "of plateau: a report whose training loss is above all of so many before it applies "
              "the factor",
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

Section evaluate(EvaluateRecipe& own) {
  Section section{"evaluate", "When it is tested. It is at the end in any case.", {}};
  section.add("every_steps", own.every_steps,
              "steps from one evaluation to the next; 0: not by steps", at_least(0));
  section.add("every_seconds", own.every_seconds,
              "seconds from one evaluation to the next; 0: not by time", at_least(0));
  section.add("every_epochs", own.every_epochs,
              "epochs from one evaluation to the next; 0: not by epochs", at_least(0));
  section.add("averaged", own.averaged,
              "test the moving average of the weights (optimizer.average) in their place");
  section.add_choice("metric", own.metric, {{Metric::accuracy, "accuracy"}, {Metric::loss, "loss"}},
                     "what decides which weights are best");
  section.add_choice("better", own.better, {{Better::higher, "higher"}, {Better::lower, "lower"}},
                     "which values of the metric are better: higher for accuracy, lower for loss");
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
              "besides, one in so many hours is kept; 0: none", at_least(0));
  section.add("keep_best", own.keep_best,
              "besides, how many of the best by evaluate.metric are kept; 0: none",
              from_to(0, kMany));
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

// A family that needs more adds its struct to Recipe and its section here; recipes of the others
// may have it, and do not use it.
std::vector<Section> sections(Recipe& recipe) {
  return {top(recipe),
          data(recipe.data),
          model(recipe.model),
          optimizer(recipe.optimizer),
          schedule(recipe.schedule),
          train(recipe.train),
          evaluate(recipe.evaluate),
          save(recipe.save),
          log(recipe.log)};
}

const Field* find_field(const std::vector<Section>& sections, const std::string& name) {
  for (const Section& section : sections)
    for (const Field& field : section.fields)
      if (field.name == name) return &field;
  return nullptr;
}

std::string name_of(const std::vector<Section>& sections, const void* address) {
  for (const Section& section : sections)
    for (const Field& field : section.fields)
      if (field.address == address) return field.name;
  return "";
}

}  // namespace lockstep::apps
