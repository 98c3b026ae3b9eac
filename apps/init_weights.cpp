#include "init_weights.h"

#include <lockstep/error.h>

#include <algorithm>
#include <filesystem>

#include "recipe/words.h"

namespace lockstep::apps {
namespace {

constexpr std::size_t kShownNames = 4;

/// "8x576x1x1"
std::string shape_of(const torch::Tensor& tensor) {
  std::string text;
  for (const std::int64_t size : tensor.sizes()) {
    if (!text.empty()) text += 'x';
    text += std::to_string(size);
  }
  return text.empty() ? "one value" : text;
}

/// "; title: a, b, c, d and 6 more", or nothing.
std::string some_of(const std::string& title, std::vector<std::string> names) {
  if (names.empty()) return "";
  const std::size_t more = names.size() - std::min(names.size(), kShownNames);
  names.resize(names.size() - more);
  return "; " + title + ": " + listed(names) +
         (more > 0 ? " and " + std::to_string(more) + " more" : "");
}

/// The tensors of a model as its state has them, by name.
using ByName = std::map<std::string, const torch::Tensor*>;

ByName by_name(const State& state) {
  ByName all;
  for (const auto* tensors : {&state.parameters, &state.frozen, &state.buffers})
    for (const NamedTensor& tensor : *tensors) all[tensor.name] = &tensor.value;
  return all;
}

struct Fit {
  std::string prefix;
  std::map<std::string, torch::Tensor> taken = {};  ///< by the model's names
  std::vector<std::string> unknown = {};            ///< of the weights' own names
  std::vector<std::string> other_shape = {};        ///< with both shapes
};

Fit fit_of(const InitialWeights& weights, const ByName& model, const std::string& prefix) {
  Fit fit{prefix};
  for (const auto& [name, value] : weights.tensors) {
    const auto own = model.find(prefix + name);
    if (own == model.end())
      fit.unknown.push_back(name);
    else if (own->second->sizes() != value.sizes())
      fit.other_shape.push_back(name + " (" + shape_of(value) + ", the model has " +
                                shape_of(*own->second) + ")");
    else
      fit.taken[own->first] = value;
  }
  return fit;
}

/// "a (2x3), b (4)": the first three.
template <class Tensors, class Value>
std::string first_of(const Tensors& tensors, const Value& value) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors)
    if (names.size() < 3) names.push_back(name + " (" + shape_of(value(tensor)) + ")");
  return names.empty() ? "nothing" : listed(names);
}

/// As the names are, or with the first prefix that makes one fit.
Fit best_fit(const InitialWeights& weights, const ByName& model,
             const std::vector<std::string>& prefixes) {
  Fit fit = fit_of(weights, model, "");
  for (const std::string& prefix : prefixes)
    if (fit.taken.empty()) fit = fit_of(weights, model, prefix);
  if (fit.taken.empty())
    throw ConfigError(
        "init.weights: nothing in " + weights.from + " fits the model by name and shape. It has " +
        first_of(weights.tensors, [](const auto& tensor) { return tensor; }) + "; the model has " +
        first_of(model, [](const auto* tensor) { return *tensor; }) + ".");
  return fit;
}

InitialWeights of_file(const std::string& path) {
  InitialWeights weights{.from = "'" + path + "'", .checksum = checksum_of(path)};
  for (NamedTensor& tensor : load_tensors(path))
    weights.tensors[tensor.name] = std::move(tensor.value);
  return weights;
}

InitialWeights of_checkpoint(const std::string& path) {
  const FoundCheckpoint found = find_checkpoint(path, Which::best);
  const State& state = found.checkpoint.state;
  const bool averaged = !state.averages.empty();
  InitialWeights weights{
      .from = (averaged ? "the averaged weights of '" : "the weights of '") + found.path + "'",
      .checksum = checksum_of(found.path)};
  for (const auto* tensors : {&state.parameters, &state.averages})
    for (const NamedTensor& tensor : *tensors) weights.tensors[tensor.name] = tensor.value;
  return weights;
}

/// What the user means by init.weights: a path, or the name of weights that set-up has installed.
std::string path_of(const std::string& named) {
  if (std::filesystem::exists(named)) return named;
  const std::string installed = std::string(LOCKSTEP_SCENES "/") + named + ".safetensors";
  if (named.find('/') == named.npos && std::filesystem::exists(installed)) return installed;
  if (named == "mobilenet_v2")
    throw ConfigError(
        "the weights of MobileNet v2 are not installed: run scripts/setup --scenes, or set "
        "init.weights to a file, a run or nothing.");
  throw ConfigError("there is no file, run or checkpoint at '" + named + "'.");
}

}  // namespace

InitialWeights read_initial(const InitRecipe& init) {
  if (init.weights.empty()) return {};
  InitialWeights weights;
  try {
    const std::string path = path_of(init.weights);
    weights = std::filesystem::is_directory(path) ? of_checkpoint(path) : of_file(path);
  } catch (const std::runtime_error& problem) {
    throw ConfigError("init.weights: " + std::string(problem.what()));
  }
  if (!init.checksum.empty() && init.checksum != weights.checksum)
    throw ConfigError("init.checksum is " + init.checksum + ", and " + weights.from + " has " +
                      weights.checksum +
                      ": these are other weights. Put the right ones there, or leave out "
                      "init.checksum (--set init.checksum=) to begin from these.");
  return weights;
}

std::string take_weights(Strategy& strategy, const InitialWeights& weights,
                         const std::vector<std::string>& prefixes) {
  State state = strategy.state();
  const ByName model = by_name(state);
  const Fit fit = best_fit(weights, model, prefixes);
  std::vector<std::string> left;
  for (const auto& [name, value] : model)
    if (!fit.taken.contains(name)) left.push_back(name);
  for (auto* tensors : {&state.parameters, &state.frozen, &state.buffers, &state.averages})
    for (NamedTensor& tensor : *tensors)
      if (const auto own = fit.taken.find(tensor.name); own != fit.taken.end())
        tensor.value = own->second.to(tensor.value.scalar_type());
  strategy.load(state);
  return "init.weights: " + std::to_string(fit.taken.size()) + " of " +
         std::to_string(weights.tensors.size()) + " tensors of " + weights.from + " taken" +
         (fit.prefix.empty() ? "" : ", with '" + fit.prefix + "' before their names") +
         some_of("not in the model", fit.unknown) + some_of("other shape", fit.other_shape) +
         some_of("left as they begin", left);
}

void freeze(Strategy& strategy, const std::vector<std::string>& patterns) {
  const auto parameters = strategy.module().named_parameters();
  for (const std::string& pattern : patterns) try {
      strategy.set_trainable(pattern, false);
    } catch (const ConfigError&) {
      std::vector<std::string> names;
      for (const auto& parameter : parameters)
        if (names.size() < 3) names.push_back(parameter.key());
      throw ConfigError("init.freeze: '" + shown(pattern) +
                        "' matches no parameter that can be trained; the first are " +
                        listed(names) + ".");
    }
  if (!patterns.empty() && std::ranges::none_of(parameters, [](const auto& parameter) {
        return parameter.value().requires_grad();
      }))
    throw ConfigError("init.freeze matches every parameter: nothing is left to train.");
}

std::vector<std::string> begin_from(Strategy& strategy, const InitialWeights& weights,
                                    const std::vector<std::string>& prefixes,
                                    const InitRecipe& init) {
  std::vector<std::string> notes;
  if (!weights.from.empty()) notes.push_back(take_weights(strategy, weights, prefixes));
  freeze(strategy, init.freeze);
  return notes;
}

void keep_init(const FoundCheckpoint& found, const std::set<std::string>& stated, Recipe& recipe) {
  const std::string& text = found.checkpoint.manifest.recipe;
  const Recipe then =
      text.empty() ? Recipe(recipe.family) : kept_recipe(text, "the checkpoint's recipe");
  for (const std::string& change : differences(then, recipe)) {
    const std::string name = change.substr(0, change.find(':'));
    const bool says_nothing = name == "init.checksum" && recipe.init.checksum.empty();
    if (!name.starts_with("init.") || !stated.contains(name) || says_nothing) continue;
    throw ConfigError(name + " cannot change on resume (" + change.substr(name.size() + 2) +
                      "): put it back, or begin a new training with another --run-dir, from '" +
                      found.path + "' if you like: --set init.weights=PATH.");
  }
  recipe.init = then.init;
}

}  // namespace lockstep::apps
