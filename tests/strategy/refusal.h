#pragma once

// Programs that are refused, and what they are told.

#include <gtest/gtest.h>
#include <lockstep/lockstep.h>

#include "models.h"
#include "on_sim.h"

namespace refusal {

using namespace lockstep;
namespace nn = torch::nn;

inline MirroredOptions options(int devices, int shards = 4) {
  return {.method = {.shards = shards, .optimizer = Sgd{.lr = 0.1}},
          .where = {.devices = cpu_devices(devices)}};
}

/// What a ConfigError, or one inside a TowerError, says; empty when `program` throws none.
template <class Program>
std::string message_of(const Program& program) {
  try {
    program();
  } catch (const TowerError& error) {
    EXPECT_THROW(std::rethrow_exception(error.cause), ConfigError) << error.what();
    return error.what();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

inline void expect_refused(const std::string& message, const std::string& name,
                           const std::string& advice) {
  EXPECT_NE(message.find("'" + name + "'"), std::string::npos) << message;
  EXPECT_NE(message.find(advice), std::string::npos) << message;
}

/// The first difference between two lists of tensors.
inline std::string difference(const std::vector<NamedTensor>& expected,
                              const std::vector<NamedTensor>& found) {
  State a, b;
  a.parameters = expected;
  b.parameters = found;
  return first_difference(a, b);
}

/// The refusal of one step of Model, on CPU and simulated devices.
template <class Model>
void expect_step_refused(const std::string& name, const std::string& advice) {
  for (const int devices : {1, 3})
    for (auto list : {cpu_devices(devices), on_sim::sim_devices(devices)})
      expect_refused(message_of([&] {
                       MirroredOptions how = options(devices);
                       how.where.devices = list;
                       Mirrored<Model> towers(how);
                       towers.step(models::vectors(0), models::CrossEntropy{});
                     }),
                     name, advice);
}

/// Linear and whatever a test adds to it.
struct Base : nn::Module {
  Base() { linear = register_module("linear", nn::Linear(12, 5)); }
  nn::Linear linear = nullptr;
};

}  // namespace refusal
