#include "console.h"

#include <lockstep/device.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "pace.h"
#include "recipe/words.h"
#include "terminal.h"

namespace lockstep::apps {
namespace {

/// By letters, and numbers by their value: "5-10" before "10-15".
bool natural_less(const std::string& a, const std::string& b) {
  const auto digit = [](char letter) { return letter >= '0' && letter <= '9'; };
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (!digit(a[i]) || !digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
      continue;
    }
    const std::size_t from = i, other = j;
    while (i < a.size() && digit(a[i])) ++i;
    while (j < b.size() && digit(b[j])) ++j;
    if (i - from != j - other) return i - from < j - other;
    if (const int order = a.compare(from, i - from, b, other, j - other); order != 0)
      return order < 0;
  }
  return a.size() - i < b.size() - j;
}

class TextConsole : public Observer {
 public:
  void started(const TrainingStart& start) override {
    std::string devices;
    for (const std::string& device : start.devices) devices += " " + device;
    line_.print(start.strategy + " on" + devices);
    line_.print(shards_text(start.shards, start.strategy, start.devices.size()));
    if (start.strategy == "mirrored")
      uneven_ = uneven_shards(start.shards, static_cast<int>(start.devices.size()));
    if (!uneven_.empty()) line_.print("note: " + uneven_);
    for (const std::string& part : start.plan) line_.print(part);
    if (start.progress.step > 0)
      line_.print("goes on from step " + std::to_string(start.progress.step));
    pace_ = Pace(start);
  }

  void stepped(const StepReport& step, const TrainingProgress& progress) override {
    pace_.add(step);
    if (!line_.due()) return;
    line_.show(pace_.bar_at(progress) + "  loss " + (step.phase.empty() ? "" : step.phase + " ") +
               format("%.4f", step.loss) + pace_.left(progress) + pace_.speed());
  }

  void reported(const TrainingReport& report) override {
    std::string text =
        "step " + std::to_string(report.progress.step) + "  epoch " +
        std::to_string(report.progress.epoch()) + "  loss " +
        (report.losses.empty() ? format("%.4f", report.loss) : line_of(report.losses)) +
        (report.metrics.empty() ? "" : "  " + line_of(report.metrics)) +
        format("  lr %.3g", report.learning_rate) + format("  norm %.3g", report.gradient_norm) +
        staleness(report) + speed(report);
    for (const TowerReport& tower : report.towers)
      if (report.towers.size() > 1 && tower.weight > 0 && report.losses.empty())
        text += "  " + tower.device + format(" %.4f", tower.loss);
    if (!line_.terminal()) line_.print(text + left(report));
    for (const std::string& note : report.notes)
      if (note != uneven_) line_.print("note: " + note);
  }

  void evaluating(const std::string& set, std::int64_t batches, std::int64_t total) override {
    if (!line_.due()) return;
    if (total == 0) return line_.show("evaluates " + set + " batch " + std::to_string(batches));
    line_.show("evaluates " + set + " " +
               bar(static_cast<double>(batches) / static_cast<double>(total), 20) + " " +
               std::to_string(batches) + " of " + std::to_string(total) + " batches");
  }

  void evaluated(const Evaluation& evaluation) override {
    line_.print("step " + std::to_string(evaluation.step) + "  " + evaluation.set +
                (evaluation.averaged ? " (averaged weights): " : ": ") +
                line_of(evaluation.metrics) + (evaluation.best ? "  best so far" : ""));
    for (const auto& [name, text] : evaluation.texts) line_.print(name + ":\n" + text);
  }

  void saved(const SaveReport& report) override {
    if (!report.error.empty())
      line_.print("NOT SAVED at step " + std::to_string(report.step) + ": " + report.error +
                  "; training goes on, older checkpoints are as they were");
    if (!report.trouble.empty()) line_.print("note: " + report.trouble);
    if (report.error.empty() && !line_.terminal())
      line_.print("step " + std::to_string(report.step) + "  saved " + report.path +
                  format(" (%.1f MB,", static_cast<double>(report.bytes) / 1e6) +
                  format(" stood still %.3f s)", report.stood_still.count()));
  }

  void machines_lost(const MachinesLeft& left) override {
    const std::string step = std::to_string(left.step);
    line_.print(listed(left.lost) + " is gone: the others (" + listed(left.devices) + ") go on " +
                (left.replayed ? "from step " + step + ", and take no step again"
                               : "from the checkpoint of step " + step + ", and take " +
                                     std::to_string(left.repeated) + " steps again"));
  }

  void ended(const TrainingEnd& end) override {
    static constexpr const char* kWords[] = {"done", "the input has ended", "stopped early",
                                             "stopped"};
    line_.print(std::string(kWords[static_cast<int>(end.ending)]) + " at step " +
                std::to_string(end.progress.step) + " after " +
                duration_text(Seconds(end.progress.seconds)) +
                (end.saved.empty() ? "" : "; saved " + end.saved));
  }

 private:
  static std::string speed(const TrainingReport& report) {
    return report.rows_per_second ? format("  %.0f samples/s", *report.rows_per_second) : "";
  }

  static std::string staleness(const TrainingReport& report) {
    if (report.staleness.steps.empty()) return "";
    return format("  staleness %.1f", report.staleness.mean()) + ", at most " +
           std::to_string(report.staleness.most());
  }

  static std::string left(const TrainingReport& report) {
    return report.left > Seconds(0) ? "  " + duration_text(report.left) + " left" : "";
  }

  StatusLine line_;
  Pace pace_;
  std::string uneven_;  ///< said at the start
};

/// Says what went wrong, and how it ended.
class QuietConsole : public TextConsole {
 public:
  void started(const TrainingStart&) override {}
  void stepped(const StepReport&, const TrainingProgress&) override {}
  void reported(const TrainingReport&) override {}
  void evaluating(const std::string&, std::int64_t, std::int64_t) override {}
  void evaluated(const Evaluation&) override {}
  void saved(const SaveReport& report) override {
    if (!report.error.empty()) TextConsole::saved(report);
  }
};

class JsonConsole : public Observer {
 public:
  void started(const TrainingStart& start) override {
    print({{"event", "start"},
           {"step", start.progress.step},
           {"strategy", start.strategy},
           {"devices", start.devices},
           {"shards", start.shards},
           {"plan", start.plan}});
  }

  void reported(const TrainingReport& report) override {
    Json towers = Json::array();
    for (const TowerReport& tower : report.towers) {
      Json one = {{"device", tower.device},
                  {"loss", number(tower.loss)},
                  {"weight", tower.weight},
                  {"rows", known(tower.rows)}};
      for (const auto& [stage, time] : kStageTimes) one[stage] = (tower.*time).count();
      towers.push_back(std::move(one));
    }
    print({{"event", "report"},
           {"step", report.progress.step},
           {"epoch", report.progress.epoch()},
           {"rows", known(report.progress.rows)},
           {"seconds", report.progress.seconds},
           {"loss", number(report.loss)},
           {"losses", numbers(report.losses)},
           {"metrics", numbers(report.metrics)},
           {"learning_rate", report.learning_rate},
           {"gradient_norm", number(report.gradient_norm)},
           {"clip_rate", report.clip_rate},
           {"staleness", staleness(report.staleness)},
           {"samples_per_second", known(report.rows_per_second)},
           {"time", report.time.count()},
           {"left", report.left.count()},
           {"towers", towers},
           {"notes", report.notes}});
  }

  void evaluated(const Evaluation& evaluation) override {
    print({{"event", "evaluation"},
           {"step", evaluation.step},
           {"set", evaluation.set},
           {"averaged", evaluation.averaged},
           {"best", evaluation.best},
           {"seconds", evaluation.took.count()},
           {"metrics", numbers(evaluation.metrics)},
           {"texts", evaluation.texts}});
  }

  void saved(const SaveReport& report) override {
    print({{"event", "save"},
           {"step", report.step},
           {"path", report.path},
           {"bytes", report.bytes},
           {"stood_still", report.stood_still.count()},
           {"seconds", report.took.count()},
           {"error", report.error},
           {"trouble", report.trouble},
           {"removed", report.removed}});
  }

  void machines_lost(const MachinesLeft& left) override {
    print({{"event", "machines_lost"},
           {"lost", left.lost},
           {"devices", left.devices},
           {"step", left.step},
           {"repeated", left.repeated},
           {"replayed", left.replayed}});
  }

  void ended(const TrainingEnd& end) override {
    static constexpr const char* kWords[] = {"done", "input_ended", "early_stop", "stopped"};
    print({{"event", "end"},
           {"ending", kWords[static_cast<int>(end.ending)]},
           {"step", end.progress.step},
           {"saved", end.saved},
           {"error", end.error}});
  }

 private:
  using Json = nlohmann::ordered_json;

  static Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
  /// Null for a strategy that has none.
  static Json staleness(const Staleness& staleness) {
    if (staleness.steps.empty()) return nullptr;
    Json steps = Json::object();
    for (const auto& [late, count] : staleness.steps) steps[std::to_string(late)] = count;
    return {{"mean", staleness.mean()}, {"max", staleness.most()}, {"steps", steps}};
  }
  static Json numbers(const std::map<std::string, double>& values) {
    Json json = Json::object();
    for (const auto& [name, value] : values) json[name] = number(value);
    return json;
  }
  template <class T>
  static Json known(const std::optional<T>& value) {
    return value ? Json(*value) : Json(nullptr);
  }
  static void print(const Json& line) {
    std::cout << line.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
  }
};

}  // namespace

std::string shards_text(int shards, const std::string& strategy, std::size_t devices) {
  std::string text = "in " + std::to_string(shards) + (shards == 1 ? " shard" : " shards");
  const auto count = static_cast<int>(devices);
  if (strategy != "mirrored" || shards <= count) return text;
  if (count > 1)
    text += std::string(": ") + (shards % count == 0 ? "" : "up to ") +
            std::to_string((shards + count - 1) / count) + " on each device";
  return text + ", one after the other (gradient accumulation)";
}

std::unique_ptr<Observer> make_console(LogStyle style) {
  if (style == LogStyle::json) return std::make_unique<JsonConsole>();
  if (style == LogStyle::quiet) return std::make_unique<QuietConsole>();
  return std::make_unique<TextConsole>();
}

std::string line_of(const std::map<std::string, double>& metrics) {
  std::vector<std::pair<std::string, double>> ordered(metrics.begin(), metrics.end());
  std::ranges::sort(ordered, natural_less, &std::pair<std::string, double>::first);
  std::string text;
  for (const auto& [name, value] : ordered)
    text += (text.empty() ? "" : "  ") + name + format(" %.4f", value);
  return text;
}

std::string duration_text(Seconds time) {
  const auto seconds = static_cast<std::int64_t>(std::llround(time.count()));
  if (seconds < 60) return std::to_string(seconds) + " s";
  if (seconds < 3600)
    return std::to_string(seconds / 60) + " min " + std::to_string(seconds % 60) + " s";
  return std::to_string(seconds / 3600) + " h " + std::to_string(seconds / 60 % 60) + " min";
}

}  // namespace lockstep::apps
