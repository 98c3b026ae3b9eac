#include <lockstep/error.h>
#include <lockstep/sim.h>

#include <charconv>
#include <functional>
#include <map>

namespace lockstep::sim {
namespace {

std::string joined(std::initializer_list<std::string_view> parts) {
  std::string all;
  for (const std::string_view part : parts) all.append(part);
  return all;
}

[[noreturn]] void refuse(std::string_view part, std::string_view why) {
  throw ConfigError(joined({"sim options: \"", part, "\": ", why}));
}

double number(std::string_view part, std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || rest != end || text.empty())
    refuse(part, joined({"expected a number, not \"", text, "\""}));
  return value;
}

double positive(std::string_view part, std::string_view text) {
  const double value = number(part, text);
  if (value <= 0) refuse(part, "must be more than 0");
  return value;
}

std::int64_t count(std::string_view part, std::string_view text) {
  const double value = number(part, text);
  const auto whole = static_cast<std::int64_t>(value);
  if (value < 0 || value > 9e15 || static_cast<double>(whole) != value)
    refuse(part, joined({"expected a whole number of at least 0, not \"", text, "\""}));
  return whole;
}

/// The two sides of the first `separator`; the second is empty if there is none.
std::pair<std::string_view, std::string_view> cut(std::string_view text, char separator) {
  const std::size_t at = text.find(separator);
  if (at == std::string_view::npos) return {text, {}};
  return {text.substr(0, at), text.substr(at + 1)};
}

/// "2@5:17": device 2, step 5, number 17; "2@5": number 0.
Fault fault(Fault::Kind kind, std::string_view part, std::string_view text) {
  const auto [device, when] = cut(text, '@');
  if (when.empty()) refuse(part, "expected device@step or device@step:number");
  const auto [step, at] = cut(when, ':');
  return {.kind = kind,
          .device = static_cast<int>(count(part, device)),
          .step = count(part, step),
          .at = at.empty() ? 0 : count(part, at)};
}

/// "1:3": sim:1 is 3 times slower.
void slow(Options& options, std::string_view part, std::string_view text) {
  const auto [device, factor] = cut(text, ':');
  if (factor.empty()) refuse(part, "expected device:factor");
  const auto index = static_cast<std::size_t>(count(part, device));
  if (index >= 64) refuse(part, "there are at most 64 devices");
  if (options.slowdown.size() <= index) options.slowdown.resize(index + 1, 1.0);
  options.slowdown[index] = positive(part, factor);
}

using Setter = std::function<void(Options&, std::string_view part, std::string_view value)>;

const std::map<std::string_view, Setter>& setters() {
  using View = std::string_view;
  static const std::map<View, Setter> all{
      {"devices",
       [](Options& o, View p, View v) {
         o.devices = static_cast<int>(count(p, v));
         if (o.devices < 1 || o.devices > 64) refuse(p, "must be 1 to 64");
       }},
      {"arithmetic", [](Options& o, View p, View v) { o.arithmetic_per_second = positive(p, v); }},
      {"bandwidth", [](Options& o, View p, View v) { o.memory_bytes_per_second = positive(p, v); }},
      {"link", [](Options& o, View p, View v) { o.link_bytes_per_second = positive(p, v); }},
      {"latency",
       [](Options& o, View p, View v) { o.link_latency = Seconds{std::max(0.0, number(p, v))}; }},
      {"launch",
       [](Options& o, View p, View v) { o.launch = Seconds{std::max(0.0, number(p, v))}; }},
      {"memory", [](Options& o, View p, View v) { o.memory_bytes = count(p, v); }},
      {"slow", slow},
      {"missing", [](Options& o, View, View v) { o.missing.emplace_back(v); }},
      {"lost",
       [](Options& o, View p, View v) { o.faults.push_back(fault(Fault::Kind::lost, p, v)); }},
      {"oom", [](Options& o, View p,
                 View v) { o.faults.push_back(fault(Fault::Kind::out_of_memory, p, v)); }},
      {"timeline", [](Options& o, View p, View v) { o.timeline = count(p, v) != 0; }},
  };
  return all;
}

void apply(Options& options, std::string_view part) {
  const auto [name, value] = cut(part, '=');
  const auto found = setters().find(name);
  if (found == setters().end()) {
    std::string known = "unknown name; there are:";
    for (const auto& [each, setter] : setters()) known.append(" ").append(each);
    refuse(part, known);
  }
  if (value.empty()) refuse(part, joined({"expected ", name, "=value"}));
  found->second(options, part, value);
}

}  // namespace

Options parse_options(std::string_view text) {
  Options options;
  while (!text.empty()) {
    const auto [part, rest] = cut(text, ',');
    apply(options, part);
    text = rest;
  }
  return options;
}

}  // namespace lockstep::sim
