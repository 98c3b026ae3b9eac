#include "sim/threads.h"

#include <ATen/Parallel.h>

#include <string_view>

namespace lockstep::sim {
namespace {

constexpr std::string_view kInfoName = "LOCKSTEP_SIM_THREADS";
constexpr c10::DebugInfoKind kInfo(&kInfoName);

struct Threads : c10::DebugInfoBase {
  int count = at::get_num_threads();
};

}  // namespace

ThreadsOfCaller::ThreadsOfCaller() : info_(kInfo, std::make_shared<Threads>()) {}

void use_threads_of_caller() {
  const auto* threads = static_cast<const Threads*>(c10::ThreadLocalDebugInfo::get(kInfo));
  if (threads && threads->count != at::get_num_threads()) at::set_num_threads(threads->count);
}

}  // namespace lockstep::sim
