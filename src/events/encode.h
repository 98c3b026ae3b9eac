#pragma once

// The protobuf messages of TensorBoard's events, each as the bytes of one record's data.

#include <lockstep/events.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep::events {

/// When an event happened.
struct Stamp {
  double wall_time = 0;  ///< seconds since 1970
  std::int64_t step = 0;
};

/// The first event of a file.
std::string encode_file_version(double wall_time);

/// A run goes on from `at.step`: readers forget that step and later ones of older files.
std::string encode_restart(Stamp at);

std::string encode_scalar(Stamp at, const std::string& tag, double value);
std::string encode_histogram(Stamp at, const std::string& tag, std::span<const float> values);
std::string encode_image(Stamp at, const std::string& tag, const Image& image);
std::string encode_text(Stamp at, const std::string& tag, const std::string& markdown);
std::string encode_graph(Stamp at, const std::vector<GraphNode>& nodes);

/// Which hyper-parameters and metrics there are.
std::string encode_experiment(Stamp at, const HyperParameters& chosen,
                              const std::vector<std::string>& metrics);

/// The values of this run.
std::string encode_session_start(Stamp at, const HyperParameters& chosen);
std::string encode_session_end(Stamp at, SessionEnd how);

}  // namespace lockstep::events
