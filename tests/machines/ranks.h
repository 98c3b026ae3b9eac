#pragma once

// Machines as threads of the test's process: of both kinds, for tests of what they have in common.

#include <gtest/gtest.h>
#include <lockstep/machines.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace ranks {

using lockstep::Bytes;
using lockstep::Machines;
using lockstep::MachinesError;
using lockstep::Seconds;
using lockstep::Trouble;
using Group = std::vector<std::shared_ptr<Machines>>;
using Clock = std::chrono::steady_clock;

inline Seconds since(Clock::time_point begin) { return Clock::now() - begin; }

/// Runs `work` for each machine that is there, on a thread each; rethrows what was thrown first.
inline void on_all(const Group& group, const std::function<void(Machines&)>& work) {
  std::vector<std::exception_ptr> errors(group.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < group.size(); ++i)
      if (group[i])
        threads.emplace_back([&, i] {
          try {
            work(*group[i]);
          } catch (...) {
            errors[i] = std::current_exception();
          }
        });
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

/// What the MachinesError says that `work` must throw.
inline Trouble trouble_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const MachinesError& error) {
    return error.trouble;
  }
  ADD_FAILURE() << "no MachinesError was thrown";
  return {};
}

/// Bytes that differ by `seed`.
inline Bytes pattern(std::size_t size, unsigned seed) {
  Bytes bytes(size);
  std::uint64_t state = seed;
  for (std::size_t begin = 0; begin < size; begin += sizeof state) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const std::uint64_t mixed = state ^ (state >> 31U);
    std::memcpy(bytes.data() + begin, &mixed, std::min(sizeof mixed, size - begin));
  }
  return bytes;
}

inline Bytes bytes_of(const std::string& text) {
  Bytes bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

inline std::vector<std::string> texts_of(const std::vector<Bytes>& all) {
  std::vector<std::string> texts;
  for (const Bytes& bytes : all)
    texts.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return texts;
}

}  // namespace ranks
