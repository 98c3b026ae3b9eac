#pragma once

// What a step tells about itself.

#include <lockstep/seconds.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// One tower's part of a step. Its times add up to StepReport::time.
struct TowerReport {
  std::string device;                    ///< "cpu:0"
  int shards = 0;                        ///< that it computed; empty ones do not count
  std::optional<std::int64_t> rows = 0;  ///< of those shards; nothing: unknown
  double loss = 0;    ///< sum over those shards divided by `weight`; NaN when it had none
  double weight = 0;  ///< of those shards: rows, or what Loss::weight counts; 1 for a total
  Seconds input{};    ///< waiting for the batch, cutting out and copying its shards
  Seconds forward{};
  Seconds backward{};
  Seconds wait{};               ///< for the other towers, and for the host
  Seconds reduce{};             ///< summing gradients, and their norm
  Seconds update{};             ///< optimizer, moving average
  std::int64_t peak_bytes = 0;  ///< most memory in use on an accelerator so far
};

struct StepReport {
  std::int64_t step = 0;   ///< number of this step, from 0
  std::string phase = {};  ///< StepOptions::phase
  bool applied = true;     ///< false: skipped, or only computed; the weights are what they were
  double loss = 0;         ///< sum over all shards divided by the total weight
  double weight = 0;       ///< total weight: rows, or what Loss::weight counts; 1 for a total
  std::map<std::string, double> metrics = {};         ///< what the loss function measured
  std::map<std::string, double> metric_weights = {};  ///< of those: rows, or what they count
  std::optional<std::int64_t> rows = 0;               ///< of the global batch; nothing: unknown
  Seconds time{};            ///< that it took, including the wait for the batch
  double gradient_norm = 0;  ///< of the averaged gradient, before clipping to global_norm
  bool clipped = false;      ///< to global_norm
  /// Updates between the weights that the gradient was computed with and this one. Nothing: the
  /// strategy has no such delay.
  std::optional<std::int64_t> staleness = std::nullopt;
  std::vector<TowerReport> towers = {};  ///< that took part
  std::vector<std::string> notes = {};   ///< said once: parameters without a gradient, shared cores
};

/// A stage of a step, by its name and its time.
struct StageTime {
  const char* name;
  Seconds TowerReport::*time;
};

/// The parts of a tower's time.
inline constexpr StageTime kStageTimes[] = {
    {"input", &TowerReport::input},       {"forward", &TowerReport::forward},
    {"backward", &TowerReport::backward}, {"wait", &TowerReport::wait},
    {"reduce", &TowerReport::reduce},     {"update", &TowerReport::update}};

}  // namespace lockstep
