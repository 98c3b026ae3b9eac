#pragma once

// A recipe: what a training is, as plain values. It is read from a TOML file, or is one of those
// built into the program, and any field can be set on the command line. Names, help and allowed
// values of the fields are declared once: in fields.cpp, and by each family for its own.

#include <lockstep/device.h>
#include <lockstep/method.h>
#include <lockstep/precision.h>

#include <any>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace lockstep::apps {

/// What every family reads; most have fields of their own besides, in this section too.
struct DataRecipe {
  std::string kind;  ///< one of the family's
  std::string path;  ///< empty: where the kind is installed
  int batch = 128;   ///< rows of the global batch
  int test_batch = 500;
  int workers = 2;
  int prefetch = 4;  ///< batches
};

/// What to do with the last rows of an epoch, when they are fewer than a batch.
enum class Rest {
  merge,   ///< fewer than two a shard become part of the batch before
  spread,  ///< all batches of an epoch have about as many rows
  drop,
  keep,
};

enum class StrategyName { mirrored, async, pipeline };

/// Of StrategyName::async.
struct AsyncRecipe {
  Order order = Order::delay;
  int delay = 3;            ///< updates; Order::delay
  int staleness = 0;        ///< updates; Order::free; 0: no bound
  double compensation = 0;  ///< 0: off
};

/// Of StrategyName::pipeline. Nothing here changes the result.
struct PipelineRecipe {
  int stages = 2;
  bool recompute = false;
  int ahead = 0;  ///< shards
};

/// What a new training begins from.
struct InitRecipe {
  std::string weights;              ///< a file, a run or a checkpoint; empty: the model's own
  std::vector<std::string> freeze;  ///< patterns of names of parameters that are not trained
  std::string checksum;             ///< of what `weights` names; empty: nothing was read so far
};

enum class OptimizerName { sgd, momentum, adam, adamw, rmsprop, tensorflow_rmsprop, adagrad };

struct OptimizerRecipe {
  OptimizerName name = OptimizerName::adam;
  double lr = 1e-3;
  double momentum = 0;  ///< above 0 if `name` is momentum
  bool nesterov = false;
  double weight_decay = 0;
  bool decay_biases_and_norms = true;
  double clip = 0;     ///< global norm; 0: off
  double average = 0;  ///< decay of the moving average; 0: off
  bool average_warm_up = false;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double decay = 0.99;
  bool amsgrad = false;
  double dampening = 0;  ///< 0 with nesterov
};

enum class ScheduleName { constant, exponential, piecewise, cosine, inverse_sqrt, plateau };

struct ScheduleRecipe {
  ScheduleName name = ScheduleName::constant;
  std::int64_t warm_up = 0;  ///< steps
  double decay_rate = 0.96;
  std::int64_t decay_steps = 0;  ///< exponential: above 0; cosine: 0: to the end of the training
  bool staircase = false;
  std::vector<std::int64_t> boundaries;  ///< ascending, above 0
  std::vector<double> factors;           ///< one more than boundaries
  double floor = 0;
  int patience = 3;
  double factor = 0.99;
};

/// The first limit reached ends the training. 0: no limit; at least one is set.
struct TrainRecipe {
  std::int64_t steps = 0;
  std::int64_t epochs = 0;
  double seconds = 0;
  std::int64_t report_every = 50;  ///< steps
};

/// 0: not by that; there is an evaluation at the end whatever these say.
struct EvaluateRecipe {
  std::int64_t every_steps = 0;
  double every_seconds = 0;
  std::int64_t every_epochs = 1;
  bool averaged = false;
  std::string metric;  ///< one of the family's
  int stop_after = 0;  ///< evaluations without improvement; 0: off
};

/// 0: not by that.
struct SaveRecipe {
  std::int64_t every_steps = 0;
  double every_seconds = 600;
  int keep_last = 3;
  double keep_every_hours = 0;
  int keep_best = 1;
  int files = 1;  ///< that the weights are written to
};

struct LogRecipe {
  bool tensorboard = true;
  bool csv = true;
  bool pictures = true;
  std::int64_t histograms_every = 0;  ///< steps; 0: off
};

struct Recipe {
  Recipe();                                         ///< of the first family
  explicit Recipe(const std::string& family_name);  ///< with the family's defaults

  std::string family;
  std::int64_t seed = 1;  ///< at least 0
  StrategyName strategy = StrategyName::mirrored;
  int shards = kDefaultShards;  ///< 1 if `strategy` is async and nothing else was stated
  Precision precision = Precision::float32;
  DataRecipe data;
  std::any own;  ///< the family's sections: see `own` in family.h
  InitRecipe init;
  AsyncRecipe async;
  PipelineRecipe pipeline;
  OptimizerRecipe optimizer;
  ScheduleRecipe schedule;
  TrainRecipe train;
  EvaluateRecipe evaluate;
  SaveRecipe save;
  LogRecipe log;
};

/// What was found besides the recipe.
struct Reading {
  std::set<std::string> stated = {};    ///< fields that were set; the others have their defaults
  std::vector<std::string> notes = {};  ///< what was read and does not count
};

/// Reads the built-in recipe of that name, or else the file at that path; then every "key=value" of
/// `sets`, in order. What comes back keeps every rule. Throws ConfigError that says where, what was
/// found, what is allowed, and the nearest valid name.
///
/// A field that the recipe's family does not read is refused with the families that do. In a file
/// it may stand with its default, as older programs printed recipes: then there is a note.
Recipe load_recipe(const std::string& name_or_path, const std::vector<std::string>& sets = {},
                   Reading* reading = nullptr);

/// The same for a text; messages call it `file`.
Recipe parse_recipe(const std::string& text, const std::string& file,
                    const std::vector<std::string>& sets = {}, Reading* reading = nullptr);

/// The same for the recipe that a checkpoint holds: what its family does not read is left out.
Recipe kept_recipe(const std::string& text, const std::string& file,
                   const std::vector<std::string>& sets = {});

/// A TOML text with every field of the recipe's family and what it means, that reads back as the
/// same recipe.
std::string print_recipe(const Recipe& recipe);

/// Every field that is read, by its name; words of enumerations and lists as texts.
std::map<std::string, std::variant<bool, double, std::string>> values_of(const Recipe& recipe);

/// What changed, a field each: "optimizer.lr: 0.1 -> 0.01".
std::vector<std::string> differences(const Recipe& a, const Recipe& b);

/// Every field with its default, its meaning and its allowed values, for --help: first those of all
/// families, then those of each.
std::string describe_fields();

/// The same as a page of Markdown, with the built-in recipes: the generated part of
/// docs/recipes.md.
std::string markdown_page();

struct BuiltIn {
  std::string name;  ///< "fashion"
  std::string family;
  std::string about;  ///< the first line of its comment
};

/// Those of recipes/*.toml, by name.
std::vector<BuiltIn> built_in_recipes();

/// A line for a list of them.
std::string listed_recipe(const BuiltIn& recipe);

}  // namespace lockstep::apps
