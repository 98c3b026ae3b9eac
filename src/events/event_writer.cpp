#include <fcntl.h>
#include <lockstep/error.h>
#include <lockstep/events.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "drawing/png.h"
#include "events/encode.h"
#include "events/event_queue.h"

namespace lockstep::events {
namespace {

constexpr std::size_t kOverhead = 256;  // of an event in the queue, besides its content

double wall_time() {
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// The name of this machine, without what a file name cannot have.
std::string host() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  std::string text = name.data();
  for (char& letter : text)
    if (letter == '/') letter = '-';
  return text;
}

struct File {
  int handle;
  std::string path;
};

/// A new file in `folder`, under a name that no other writer has.
File make_file(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw IoError(folder, "make the folder", error.value());
  const std::string name = "events.out.tfevents." +
                           std::to_string(static_cast<std::int64_t>(wall_time())) + "." + host() +
                           "." + std::to_string(::getpid()) + ".";
  for (int n = 0;; ++n) {
    const std::string path = std::filesystem::path(folder) / (name + std::to_string(n));
    const int handle =
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    if (handle >= 0) return {handle, path};
    if (errno != EEXIST) throw IoError(path, "make", errno);
  }
}

const EventWriterOptions& checked(const EventWriterOptions& options) {
  check(options.flush_every.count() > 0, "flush_every is more than nothing");
  check(options.most_queued_bytes >= 4096, "most_queued_bytes has room for a few events");
  return options;
}

std::size_t size_of(const HyperParameters& chosen) {
  std::size_t bytes = 0;
  for (const auto& [name, value] : chosen) {
    const auto* text = std::get_if<std::string>(&value);
    bytes += kOverhead + name.size() + (text ? text->size() : 0);
  }
  return bytes;
}

std::size_t size_of(const std::vector<std::string>& texts) {
  std::size_t bytes = 0;
  for (const std::string& text : texts) bytes += kOverhead + text.size();
  return bytes;
}

std::size_t size_of(const GraphNode& node) {
  std::size_t bytes = kOverhead + node.name.size() + node.op.size() + size_of(node.inputs);
  for (const auto& [name, text] : node.attributes) bytes += kOverhead + name.size() + text.size();
  return bytes;
}

}  // namespace

struct EventWriter::Impl {
  Impl(const std::string& folder, const EventWriterOptions& options)
      : Impl(make_file(folder), options) {}

  Impl(const File& file, const EventWriterOptions& options)
      : path(file.path),
        queue(file.handle, file.path, options.flush_every, options.most_queued_bytes) {}

  /// Queues encode(stamp, content...) with copies of the content, if there is room for `bytes`.
  template <class... Parameters, class... Content>
  void add(std::size_t bytes, std::int64_t step,
           std::string (*encode)(events::Stamp, Parameters...), const Content&... content) {
    const events::Stamp at{.wall_time = wall_time(), .step = step};
    bytes += kOverhead;
    if (queue.reserve(bytes))
      queue.add(bytes, [at, encode, content...] { return encode(at, content...); });
  }

  const std::string path;
  events::EventQueue queue;
};

EventWriter::EventWriter(const std::string& folder, EventWriterOptions options)
    : impl_(std::make_unique<Impl>(folder, checked(options))) {
  impl_->queue.reserve(kOverhead);
  impl_->queue.add(kOverhead, [at = wall_time()] { return events::encode_file_version(at); });
  if (options.resumed_at) impl_->add(0, *options.resumed_at, events::encode_restart);
}

EventWriter::~EventWriter() = default;

void EventWriter::scalar(const std::string& tag, std::int64_t step, double value) {
  impl_->add(tag.size(), step, events::encode_scalar, tag, value);
}

void EventWriter::histogram(const std::string& tag, std::int64_t step,
                            std::span<const float> values) {
  const double at = wall_time();
  const std::size_t bytes = kOverhead + tag.size() + values.size_bytes();
  if (!impl_->queue.reserve(bytes)) return;
  std::vector<float> copy(values.begin(), values.end());
  impl_->queue.add(bytes, [=, values = std::move(copy)] {
    return events::encode_histogram({at, step}, tag, values);
  });
}

void EventWriter::image(const std::string& tag, std::int64_t step, const Image& image) {
  drawing::check_image(image);
  impl_->add(tag.size() + image.pixels.size(), step, events::encode_image, tag, image);
}

void EventWriter::text(const std::string& tag, std::int64_t step, const std::string& markdown) {
  impl_->add(tag.size() + markdown.size(), step, events::encode_text, tag, markdown);
}

void EventWriter::hyper_parameters(const HyperParameters& chosen,
                                   const std::vector<std::string>& metrics) {
  impl_->add(size_of(chosen) + size_of(metrics), 0, events::encode_experiment, chosen, metrics);
  impl_->add(size_of(chosen), 0, events::encode_session_start, chosen);
}

void EventWriter::session_end(SessionEnd how) { impl_->add(0, 0, events::encode_session_end, how); }

void EventWriter::graph(const std::vector<GraphNode>& nodes) {
  std::size_t bytes = 0;
  for (const GraphNode& node : nodes) bytes += size_of(node);
  impl_->add(bytes, 0, events::encode_graph, nodes);
}

void EventWriter::flush() { impl_->queue.flush(); }
std::int64_t EventWriter::dropped() const { return impl_->queue.dropped(); }
std::string EventWriter::error() const { return impl_->queue.error(); }
const std::string& EventWriter::path() const { return impl_->path; }

}  // namespace lockstep::events
