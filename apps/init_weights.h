#pragma once

// What a new training begins from: the section [init] of a recipe.

#include <lockstep/strategy.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "recipe/recipe.h"
#include "run_folder.h"

namespace lockstep::apps {

/// What init.weights names, read.
struct InitialWeights {
  std::string from = {};      ///< "the averaged weights of 'runs/a/...'"; empty: there are none
  std::string checksum = {};  ///< as checksum_of gives it
  std::map<std::string, torch::Tensor> tensors = {};  ///< parameters and buffers
};

/// Reads a safetensors file, a checkpoint, or the best checkpoint of a run: of the last two the
/// moving averages, if there are any. Reads nothing when init.weights is empty. Throws ConfigError
/// when it cannot be read, and when it is not what init.checksum says.
InitialWeights read_initial(const InitRecipe& init);

/// Makes a strategy without steps begin from those weights whose names and shapes fit. If no name
/// fits as it is, the first of `prefixes` with which one does is put before all of them. Returns
/// what was taken and what was not, on one line. Throws ConfigError when nothing fits.
std::string take_weights(Strategy& strategy, const InitialWeights& weights,
                         const std::vector<std::string>& prefixes);

/// Freezes the parameters that match one of `patterns`. Throws ConfigError for a pattern that
/// matches none, and when nothing is left to train.
void freeze(Strategy& strategy, const std::vector<std::string>& patterns);

/// Both, for a new training whose init.weights were read. Returns notes for people.
std::vector<std::string> begin_from(Strategy& strategy, const InitialWeights& weights,
                                    const std::vector<std::string>& prefixes,
                                    const InitRecipe& init);

/// The other way to begin: a training that is resumed keeps the checkpoint's section [init]. Throws
/// ConfigError for a field of it that was stated and differs.
void keep_init(const FoundCheckpoint& found, const std::set<std::string>& stated, Recipe& recipe);

}  // namespace lockstep::apps
