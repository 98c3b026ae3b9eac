#include <lockstep/trace.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "base/file.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

double microseconds(Seconds time) { return time.count() * 1e6; }

/// The event that gives a process or a thread its name.
Json naming(const char* what, int process, int thread, const std::string& name) {
  return {
      {"ph", "M"}, {"name", what}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

}  // namespace

void Trace::add(const std::string& device, const std::string& track, const std::string& name,
                Seconds begin, Seconds end) {
  const std::scoped_lock lock(mutex_);
  spans_.push_back({device, track, name, begin, end});
}

std::string Trace::json() const {
  std::vector<Span> spans;
  {
    const std::scoped_lock lock(mutex_);
    spans = spans_;
  }
  // The same spans give the same file, whichever thread was first; an outer span before its inner.
  std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return std::tie(a.begin, b.end, a.device, a.track, a.name) <
           std::tie(b.begin, a.end, b.device, b.track, b.name);
  });
  std::map<std::string, std::map<std::string, int>> devices;  // their tracks, numbered below
  for (const Span& span : spans) devices[span.device][span.track] = 0;

  Json events = Json::array();
  std::map<std::string, int> processes;
  int process = 0, thread = 0;
  for (auto& [device, tracks] : devices) {
    processes[device] = ++process;
    events.push_back(naming("process_name", process, 0, device));
    for (auto& [track, number] : tracks) {
      number = ++thread;
      events.push_back(naming("thread_name", process, number, track));
    }
  }
  for (const Span& span : spans)
    events.push_back({{"ph", "X"},
                      {"name", span.name},
                      {"pid", processes[span.device]},
                      {"tid", devices[span.device][span.track]},
                      {"ts", microseconds(span.begin)},
                      {"dur", microseconds(span.end - span.begin)}});
  const Json result = {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
  return result.dump(1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

void Trace::write(const std::string& path) const { base::publish(path, json()); }

}  // namespace lockstep
