#pragma once

#include <cstdint>
#include <functional>

namespace lockstep::apps {

/// Calls work(i) for all i from 0 to count - 1 on `workers` threads, in any order, and `progress`
/// with the number that is done on the calling thread, ten times a second and at the end. The first
/// exception, of `work` or of `progress`, ends it: it is thrown when all threads have ended.
void on_workers(std::int64_t count, int workers, const std::function<void(std::int64_t)>& work,
                const std::function<void(std::int64_t done)>& progress = {});

}  // namespace lockstep::apps
