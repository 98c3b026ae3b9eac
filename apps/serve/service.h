#pragma once

// What a family answers over HTTP.

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "serve/batcher.h"

namespace lockstep::apps {

struct ServeFlags {
  std::string path = {};  ///< of a run, or a checkpoint
  std::string weights = "auto";
  bool newest = false;
  ServeLimits limits = {};
};

class Service {
 public:
  virtual ~Service() = default;

  /// "predict": requests go to /api/predict.
  virtual std::string name() const = 0;

  /// What /api/model says besides: the classes, for example.
  virtual nlohmann::ordered_json about() const = 0;

  /// Called by several threads. `options` are those of the address: ?top=5. Throws ConfigError or
  /// CorruptFile for a request that cannot be answered, Busy and TooLate.
  virtual nlohmann::ordered_json answer(const std::string& body,
                                        const std::map<std::string, std::string>& options) = 0;
};

/// A whole number from `low` to `high` among the options, or `otherwise`. Throws ConfigError.
int option_of(const std::map<std::string, std::string>& options, const std::string& name,
              int otherwise, int low, int high);

}  // namespace lockstep::apps
