#pragma once

// What a step tells about itself.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

using Seconds = std::chrono::duration<double>;

/// One tower's part of a step. The times add up to what the step took on this tower.
struct TowerReport {
  std::string device;     ///< "cpu:0"
  int shards = 0;         ///< that it computed; empty ones sit out
  std::int64_t rows = 0;  ///< of those shards
  double loss = 0;        ///< weighted mean over those shards; NaN when it had none
  Seconds input{};        ///< cutting out its shards
  Seconds forward{};
  Seconds backward{};
  Seconds wait{};               ///< for the other towers
  Seconds reduce{};             ///< summing gradients, and their norm
  Seconds update{};             ///< optimizer, moving average
  std::int64_t peak_bytes = 0;  ///< most memory in use on an accelerator so far
};

struct StepReport {
  std::int64_t step = 0;     ///< number of this step, from 0
  bool applied = true;       ///< false: skipped, or only computed; the weights are what they were
  double loss = 0;           ///< sum over all shards divided by the total weight
  double weight = 0;         ///< total weight: rows, or what Loss::weight counts
  std::int64_t rows = 0;     ///< of the global batch, where known
  double gradient_norm = 0;  ///< of the averaged gradient, before clipping to global_norm
  bool clipped = false;      ///< to global_norm
  std::vector<TowerReport> towers = {};
  std::vector<std::string> notes = {};  ///< said once: parameters without a gradient, shared cores
};

}  // namespace lockstep
