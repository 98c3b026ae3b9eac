#pragma once

// Batches to train on, with the last one of an epoch as data.rest says.

#include <lockstep/error.h>
#include <lockstep/input.h>

#include <algorithm>
#include <string>
#include <utility>

#include "recipe/recipe.h"

namespace lockstep::apps {

/// Fewer rows in a batch leave a shard with a single one.
inline std::int64_t rows_for_all(const Recipe& recipe) {
  return 2 * static_cast<std::int64_t>(recipe.shards);
}

inline input::Last last_of(Rest rest) {
  switch (rest) {
    case Rest::merge:
      return input::Last::merge;
    case Rest::spread:
      return input::Last::spread;
    case Rest::drop:
      return input::Last::drop;
    case Rest::keep:
      break;
  }
  return input::Last::keep;
}

/// Shuffled by the recipe's seed. Throws ConfigError when an epoch has no batch.
template <input::Source S>
auto training_batches(const Recipe& recipe, Rest rest, S items) {
  const std::int64_t rows = items.size();
  auto batches =
      input::batch(input::shuffle(std::move(items), static_cast<std::uint64_t>(recipe.seed)),
                   recipe.data.batch, last_of(rest), rows_for_all(recipe));
  if (batches.size() == 0)
    throw ConfigError("there are " + std::to_string(rows) + " images to train on, data.batch is " +
                      std::to_string(recipe.data.batch) +
                      ", and data.rest = \"drop\" leaves nothing of them: set data.rest to merge, "
                      "or data.batch to at most the images there are.");
  return batches;
}

/// The rows of the smallest batch of an epoch.
template <class Batches>
std::int64_t fewest_rows(const Batches& batches) {
  return std::min(batches.rows(0, 0), batches.rows(0, batches.size() - 1));
}

/// Throws ConfigError when a batch leaves a shard with a single row, and the model cannot train on
/// one: batch normalisation over single values has nothing to normalise by. `train_one` runs the
/// model on one row as in training, to find out.
template <class TrainOne>
void require_rows(const Recipe& recipe, std::int64_t fewest, const TrainOne& train_one) {
  if (fewest >= rows_for_all(recipe)) return;
  try {
    train_one();
  } catch (const c10::Error& problem) {
    const std::string what = problem.what_without_backtrace();
    if (what.find("more than 1 value per channel") == what.npos) throw;
    const std::string most = std::to_string(std::max<std::int64_t>(fewest / 2, 1));
    throw ConfigError(
        "a batch of " + std::to_string(fewest) + " images in " + std::to_string(recipe.shards) +
        " shards leaves a shard with one image, and batch normalisation in this model cannot train "
        "on one: set data.batch to at least " +
        std::to_string(rows_for_all(recipe)) + " with data.rest = \"merge\"" +
        (fewest > 1 ? ", or shards to at most " + most : "") + ", or take larger images.");
  }
}

}  // namespace lockstep::apps
