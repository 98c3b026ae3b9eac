#pragma once

// A recipe: what a training is, as plain values. It is read from a TOML file, or is one of those
// built into the program, and any field can be set on the command line. Names, help and allowed
// values of the fields are declared once, in fields.cpp.

#include <lockstep/device.h>
#include <lockstep/precision.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace lockstep::apps {

enum class Family { classify, seq2seq };

enum class DataKind { fashion_mnist, cifar10, folder, tsv, parallel, chatterbot, gettext };

struct DataRecipe {
  DataKind kind = DataKind::fashion_mnist;
  std::string path;         ///< empty: where the kind is installed, if that is known
  std::string target_path;  ///< of `parallel`
  std::string test_path;    ///< of `folder` and of texts
  std::string test_target_path;
  int batch = 128;  ///< rows of the global batch
  int test_batch = 500;
  bool augment = true;
  int size = 224;  ///< side of the images of `folder`, in pixels
  int workers = 2;
  int prefetch = 4;  ///< batches
};

enum class TokenKind { sentencepiece, characters };

/// Pairs of texts, and the batches made of them.
struct TextRecipe {
  std::string language = "english";  ///< of `chatterbot` and `gettext`
  double held_out = 0;               ///< share of the sources to test on, without a test_path
  bool unique = true;                ///< a pair that comes again is left out
  bool refuse_bad = false;           ///< else pairs that are no texts are skipped
  TokenKind tokens = TokenKind::sentencepiece;
  int vocabulary = 8000;
  std::vector<std::int64_t> source_lengths = {5, 10, 20, 40};  ///< of the buckets
  std::vector<std::int64_t> target_lengths = {10, 15, 25, 50};
  int quantiles = 0;              ///< buckets by the data in place of those
  bool cut = false;               ///< pairs too long for all buckets; else they are left out
  std::int64_t batch_tokens = 0;  ///< 0: data.batch pairs
};

enum class CellName { lstm, gru };
enum class AttentionName { dot, general, bahdanau };

struct Seq2SeqRecipe {
  int layers = 2;
  int hidden = 512;
  int embedding = 256;
  CellName cell = CellName::lstm;
  bool bidirectional = false;
  AttentionName attention = AttentionName::general;
  bool input_feeding = false;
  double keep = 1;  ///< 1: no dropout
  bool tied = false;
  double label_smoothing = 0;
  int samples = 0;  ///< 0: no sampled softmax
};

struct DecodeRecipe {
  int beam = 1;  ///< 1: greedy
  int max_length = 50;
  double length_penalty = 0.6;
  double coverage_penalty = 0;
  int tested = 500;  ///< texts written when evaluating
};

enum class ModelName { convnet, resnet20, resnet18, resnet50 };

struct ModelRecipe {
  ModelName name = ModelName::convnet;
  int width = 32;  ///< filters of convnet's first layer
  double dropout = 0;
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

enum class Metric { accuracy, loss, exact, bleu };
enum class Better { higher, lower };

/// 0: not by that; there is an evaluation at the end whatever these say.
struct EvaluateRecipe {
  std::int64_t every_steps = 0;
  double every_seconds = 0;
  std::int64_t every_epochs = 1;
  bool averaged = false;
  Metric metric = Metric::accuracy;
  Better better = Better::higher;
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
  std::int64_t histograms_every = 0;  ///< steps; 0: off
};

struct Recipe {
  Family family = Family::classify;
  std::int64_t seed = 1;  ///< at least 0
  int shards = kDefaultShards;
  Precision precision = Precision::float32;
  DataRecipe data;
  TextRecipe text;
  ModelRecipe model;
  Seq2SeqRecipe seq2seq;
  DecodeRecipe decode;
  OptimizerRecipe optimizer;
  ScheduleRecipe schedule;
  TrainRecipe train;
  EvaluateRecipe evaluate;
  SaveRecipe save;
  LogRecipe log;
};

/// Reads the built-in recipe of that name, or else the file at that path; then every "key=value" of
/// `sets`, in order. What comes back keeps every rule. Throws ConfigError that says where, what was
/// found, what is allowed, and the nearest valid name. `stated` gets the names of the fields that
/// were set; the others have their defaults.
Recipe load_recipe(const std::string& name_or_path, const std::vector<std::string>& sets = {},
                   std::set<std::string>* stated = nullptr);

/// The same for a text; messages call it `file`.
Recipe parse_recipe(const std::string& text, const std::string& file,
                    const std::vector<std::string>& sets = {},
                    std::set<std::string>* stated = nullptr);

/// A TOML text with every field and what it means, that reads back as the same recipe.
std::string print_recipe(const Recipe& recipe);

/// Every field by its name; words of enumerations and lists as texts.
std::map<std::string, std::variant<bool, double, std::string>> values_of(const Recipe& recipe);

/// As in recipes and evaluations: "accuracy".
std::string word_of(Metric metric);

/// What changed, a field each: "optimizer.lr: 0.1 -> 0.01".
std::vector<std::string> differences(const Recipe& a, const Recipe& b);

/// Every field with its default, its meaning and its allowed values, for --help.
std::string describe_fields();

struct BuiltIn {
  std::string name;   ///< "fashion"
  std::string about;  ///< the first line of its comment
};

/// Those of recipes/*.toml, by name.
std::vector<BuiltIn> built_in_recipes();

}  // namespace lockstep::apps
