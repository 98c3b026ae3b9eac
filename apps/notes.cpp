#include "notes.h"

#include <atomic>
#include <iostream>
#include <memory>
#include <mutex>
#include <set>

namespace lockstep::apps {

namespace {

/// Whether it is said for the first time: commands that make several jobs read the same files.
bool is_new(const std::string& problem) {
  static std::mutex mutex;
  static std::set<std::string> told;
  const std::lock_guard guard(mutex);
  return told.insert(problem).second;
}

}  // namespace

void tell_note(const std::string& text) { std::cerr << "note: " + text + "\n"; }

std::function<void(const std::string& problem)> broken_files(const std::string& what) {
  constexpr int kNamed = 10;
  const auto count = std::make_shared<std::atomic<int>>(0);
  return [=](const std::string& problem) {
    if (!is_new(problem + what)) return;
    const int now = ++*count;
    int power = kNamed;
    while (power < now) power *= 10;
    if (now <= kNamed)
      tell_note(problem + "; " + what);
    else if (now == power)
      tell_note(std::to_string(now) + " such files so far; after the first " +
                std::to_string(kNamed) + " they are only counted");
  };
}

}  // namespace lockstep::apps
