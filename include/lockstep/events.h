#pragma once

// What TensorBoard shows of a training: a writer of its event files. docs/events.md has the format.

#include <lockstep/image.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace lockstep::events {

struct EventWriterOptions {
  std::chrono::duration<double> flush_every{5};            ///< a crash loses at most this much
  std::size_t most_queued_bytes = std::size_t{64} << 20U;  ///< beyond it events are dropped
  /// For a resumed run, its first step: TensorBoard forgets what older files say of that step and
  /// later ones.
  std::optional<std::int64_t> resumed_at = std::nullopt;
};

/// A node of the graph. A '/' in the name makes groups that open and close; `inputs` are names.
struct GraphNode {
  std::string name;
  std::string op;
  std::vector<std::string> inputs = {};
  std::map<std::string, std::string> attributes = {};
};

using HyperParameters = std::map<std::string, std::variant<bool, double, std::string>>;

enum class SessionEnd { success, failure };

/// Writes one event file in a folder; a resumed run makes another one beside it. Every method but
/// flush() copies what it is given and returns at once: encoding and writing happen on the
/// writer's own thread. No method throws for trouble with the disk; ask error() and dropped().
/// Any thread may call any method.
class EventWriter {
 public:
  /// Makes the file, and the folder if it does not exist. Throws IoError if that fails.
  explicit EventWriter(const std::string& folder, EventWriterOptions options = {});

  /// Writes what is queued; gives up on it when the disk refuses.
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  /// One point of the curve `tag`; kept as a float. A '/' in a tag groups charts.
  void scalar(const std::string& tag, std::int64_t step, double value);

  /// The distribution of `values` in 30 buckets of equal width from the least to the greatest.
  /// Infinities and NaN are left out. Dropped if larger than most_queued_bytes.
  void histogram(const std::string& tag, std::int64_t step, std::span<const float> values);

  /// A picture, shown as PNG. Throws std::logic_error if `image` is empty or has too few pixels.
  void image(const std::string& tag, std::int64_t step, const Image& image);

  /// Text, shown as Markdown.
  void text(const std::string& tag, std::int64_t step, const std::string& markdown);

  /// What was chosen for this run, and the tags of the scalars that judge it. Once per run.
  void hyper_parameters(const HyperParameters& chosen, const std::vector<std::string>& metrics);

  /// Ends what hyper_parameters() began.
  void session_end(SessionEnd how = SessionEnd::success);

  /// The model as a graph. Once per run.
  void graph(const std::vector<GraphNode>& nodes);

  /// Returns when everything added before is on disk, or the disk has refused it: see error().
  void flush();

  /// How many events were lost because the queue was full or memory was short.
  std::int64_t dropped() const;

  /// Empty, or why the last attempt to write failed. It is tried again after flush_every: events
  /// wait in the queue, and none is lost until that is full.
  std::string error() const;

  /// The file that is written.
  const std::string& path() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::events
