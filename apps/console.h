#pragma once

// What a training shows: a progress line on a terminal, plain lines elsewhere, or one line of JSON
// for everything that happens.

#include <lockstep/observer.h>

#include <map>
#include <memory>
#include <string>

namespace lockstep::apps {

enum class LogStyle { text, json, quiet };

/// What shows a training in that style, on standard output.
std::unique_ptr<Observer> make_console(LogStyle style);

/// "in 8 shards: 4 on each device, one after the other (gradient accumulation)".
std::string shards_text(int shards, const std::string& strategy, std::size_t devices);

/// A table of metrics on one line: "accuracy 0.9123  loss 0.2534".
std::string line_of(const std::map<std::string, double>& metrics);

/// "3 s", "4 min 5 s", "2 h 10 min".
std::string duration_text(Seconds time);

}  // namespace lockstep::apps
