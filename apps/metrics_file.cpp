#include "metrics_file.h"

#include <lockstep/tensorboard.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "run_folder.h"
#include "terminal.h"

namespace lockstep::apps {
namespace {

constexpr const char* kHeader = "step,epoch,seconds,set,name,value\n";

/// What a name needs to stay one column.
std::string csv_text(const std::string& text) {
  if (text.find_first_of(",\"\n") == text.npos) return text;
  std::string result = "\"";
  for (const char letter : text) result += letter == '"' ? "\"\"" : std::string(1, letter);
  return result + "\"";
}

/// The lines of a file up to a step.
std::string lines_until(const std::string& path, std::int64_t step) {
  std::ifstream file(path);
  std::string kept;
  for (std::string line; std::getline(file, line);)
    if (!line.empty() && line.front() >= '0' && line.front() <= '9' &&
        std::strtoll(line.c_str(), nullptr, 10) <= step)
      kept += line + "\n";
  return kept;
}

}  // namespace

void MetricsFile::started(const TrainingStart& start) {
  stand_at(start.progress);
  try {
    const std::int64_t step = start.progress.step;
    replace_file(path_, kHeader + (step > 0 ? lines_until(path_, step) : ""));
  } catch (const std::exception& problem) {
    error_ = problem.what();
    return;
  }
  file_.open(path_, std::ios::app);
  flush();
}

void MetricsFile::reported(const TrainingReport& report) {
  if (report.losses.empty()) add("train", "loss", report.loss);
  for (const auto& [name, value] : report.losses) add("train", "loss/" + name, value);
  for (const auto& [name, value] : report.metrics) add("train", name, value);
  add("train", "learning_rate", report.learning_rate);
  add("train", "gradient_norm", report.gradient_norm);
  if (report.rows_per_second) add("train", "samples_per_second", *report.rows_per_second);
  flush();
}

void MetricsFile::evaluated(const Evaluation& evaluation) {
  for (const auto& [name, value] : evaluation.metrics) add(tag_of_set(evaluation.set), name, value);
  flush();
}

void MetricsFile::add(const std::string& set, const std::string& name, double value) {
  file_ << step_ << "," << epoch_ << format(",%.3f,", seconds_) << csv_text(set) << ","
        << csv_text(name) << "," << (std::isfinite(value) ? format("%.9g", value) : "") << "\n";
}

void MetricsFile::flush() {
  if (!file_.flush() && error_.empty()) error_ = path_ + ": " + std::strerror(errno);
}

}  // namespace lockstep::apps
