#include <fcntl.h>
#include <lockstep/error.h>
#include <lockstep/trace.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

double microseconds(Seconds time) { return time.count() * 1e6; }

/// The event that gives a process or a thread its name.
Json naming(const char* what, int process, int thread, const std::string& name) {
  return {
      {"ph", "M"}, {"name", what}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

/// Calls `action`, a system call, and throws IoError if it fails.
template <class Action>
auto attempt(const std::string& path, const char* what, const Action& action) {
  const auto result = action();
  if (result < 0) throw IoError(path, what, errno);
  return result;
}

class File {
 public:
  File(const std::string& path, int flags)
      : path_(path),
        handle_(attempt(path, "open", [&] { return ::open(path.c_str(), flags, 0644); })) {}
  ~File() { ::close(handle_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto written =
          attempt(path_, "write", [&] { return ::write(handle_, bytes.data(), bytes.size()); });
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  void sync() {
    attempt(path_, "sync", [&] { return ::fsync(handle_); });
  }

 private:
  const std::string path_;
  const int handle_;
};

/// Writes aside, syncs, renames, syncs the folder: under `path` is the old file or the whole new.
void publish(const std::string& path, const std::string& content) {
  const std::string aside = path + ".new";
  try {
    File file(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC);
    file.write(content);
    file.sync();
    attempt(path, "rename to", [&] { return std::rename(aside.c_str(), path.c_str()); });
  } catch (const IoError&) {
    ::unlink(aside.c_str());
    throw;
  }
  const std::string folder = std::filesystem::path(path).parent_path();
  File(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC).sync();
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

void Trace::write(const std::string& path) const { publish(path, json()); }

}  // namespace lockstep
