#pragma once

// Several machines as threads of this process: each runs the same program with devices of its own.

#include <gtest/gtest.h>
#include <lockstep/lockstep.h>

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "machines/thread_machines.h"

namespace on_machines {

using namespace lockstep;

/// CPU devices a machine.
using Layout = std::vector<int>;

inline std::string text(const Layout& layout) {
  std::string result;
  for (const int devices : layout) result += (result.empty() ? "" : "+") + std::to_string(devices);
  return result;
}

/// Runs `program` on every machine, a thread each. What machines threw, by rank; null: nothing.
using Program = std::function<void(const std::shared_ptr<Machines>&)>;
inline std::vector<std::exception_ptr> run_all(std::vector<std::shared_ptr<Machines>> machines,
                                               const Program& program) {
  std::vector<std::exception_ptr> thrown(machines.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < machines.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        program(machines[i]);
      } catch (const std::exception& error) {
        thrown[i] = std::current_exception();
        machines[i]->abort(error.what());  // or the others would wait for ever
      }
      machines[i].reset();  // as a process that ends
    });
  threads.clear();
  return thrown;
}

inline std::string what(const std::exception_ptr& thrown) {
  if (!thrown) return "";
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// The same, and nothing may be thrown.
inline void run(std::vector<std::shared_ptr<Machines>> machines, const Program& program) {
  for (const std::exception_ptr& each : run_all(std::move(machines), program))
    EXPECT_EQ(what(each), "");
}

inline MirroredOptions options(int devices, int shards, std::shared_ptr<Machines> machines) {
  return {.method = {.shards = shards,
                     .optimizer = Adam{.lr = 1e-2, .weight_decay = 1e-3},
                     .clip = {.global_norm = 0.1},
                     .moving_average = MovingAverage{.decay = 0.9, .warm_up = true},
                     .seed = 7},
          .where = {.devices = cpu_devices(devices), .machines = std::move(machines)}};
}

}  // namespace on_machines
