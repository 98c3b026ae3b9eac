#include <lockstep/device.h>
#include <lockstep/events.h>
#include <lockstep/tensorboard.h>
#include <torch/torch.h>

#include <cmath>
#include <optional>

#include "train/module_graph.h"

namespace lockstep {
namespace {

std::string rows(const std::map<std::string, std::string>& table) {
  std::string text = "| | |\n| --- | --- |\n";
  for (const auto& [name, value] : table) text += "| " + name + " | " + value + " |\n";
  return text;
}

}  // namespace

std::string tag_of_set(const std::string& set) {
  return set == "train" || set == "system" ? set + "_set" : set;
}

class TensorBoard::Impl {
 public:
  explicit Impl(TensorBoardOptions options) : options_(std::move(options)) {}

  void start(const TrainingStart& start) {
    events::EventWriterOptions how;
    if (start.progress.step > 0) how.resumed_at = start.progress.step + 1;
    writer_.emplace(options_.folder, how);
    model_ = start.model;
    writer_->graph(train::module_graph(model_()));
    std::string plan;
    for (const std::string& line : start.plan) plan += (plan.empty() ? "" : "; ") + line;
    std::string devices;
    for (const std::string& device : start.devices)
      devices += (devices.empty() ? "" : ", ") + device;
    std::string shards = std::to_string(start.shards);
    const int count = start.strategy == "mirrored" ? static_cast<int>(start.devices.size()) : 1;
    if (const auto uneven = uneven_shards(start.shards, count); !uneven.empty())
      shards += ". " + uneven;
    writer_->text("run", start.progress.step,
                  rows({{"devices", devices},
                        {"plan", plan},
                        {"shards", shards},
                        {"strategy", start.strategy}}) +
                      "\n" + options_.text);
    for (const auto& [name, image] : start.images)
      writer_->image("input/" + name, start.progress.step, image);
    if (!options_.hyper_parameters.empty())
      writer_->hyper_parameters(options_.hyper_parameters, options_.metrics);
  }

  void step(const TrainingProgress& progress) {
    if (options_.histograms_every == 0 || progress.step % options_.histograms_every != 0) return;
    const torch::NoGradGuard no_grad;
    for (const auto& parameter : model_().named_parameters()) {
      const torch::Tensor values =
          parameter.value().detach().to(torch::kCPU, torch::kFloat32).contiguous();
      writer_->histogram(
          "parameters/" + parameter.key(), progress.step,
          {values.const_data_ptr<float>(), static_cast<std::size_t>(values.numel())});
    }
  }

  void report(const TrainingReport& report) {
    const std::int64_t step = report.progress.step;
    const auto train = [&](const std::string& name, double value) {
      writer_->scalar("train/" + name, step, value);
    };
    const auto system = [&](const std::string& name, double value) {
      writer_->scalar("system/" + name, step, value);
    };
    if (report.losses.empty()) train("loss", report.loss);
    for (const auto& [phase, loss] : report.losses) train("loss/" + phase, loss);
    for (const auto& [name, value] : report.metrics) train(name, value);
    train("learning_rate", report.learning_rate);
    train("gradient_norm", report.gradient_norm);
    train("clip_rate", report.clip_rate);
    train("epoch", static_cast<double>(report.progress.epoch()));
    if (const Staleness& staleness = report.staleness; !staleness.steps.empty()) {
      train("staleness/mean", staleness.mean());
      train("staleness/max", static_cast<double>(staleness.most()));
      std::vector<float> each;
      for (const auto& [late, steps] : staleness.steps)
        each.insert(each.end(), static_cast<std::size_t>(steps), static_cast<float>(late));
      writer_->histogram("train/staleness", step, each);
    }
    if (report.rows_per_second) system("samples_per_second", *report.rows_per_second);
    for (const TowerReport& tower : report.towers) {
      if (!std::isnan(tower.loss)) train("loss/" + tower.device, tower.loss);
      for (const auto& [stage, time] : kStageTimes)
        system("time_" + std::string(stage) + "/" + tower.device, (tower.*time).count());
      if (tower.peak_bytes > 0)
        system("memory_peak_bytes/" + tower.device, static_cast<double>(tower.peak_bytes));
    }
  }

  void evaluation(const Evaluation& evaluation) {
    const std::string group = tag_of_set(evaluation.set) + "/";
    for (const auto& [name, value] : evaluation.metrics)
      writer_->scalar(group + name, evaluation.step, value);
    for (const auto& [name, image] : evaluation.images)
      writer_->image(group + name, evaluation.step, image);
    for (const auto& [name, text] : evaluation.texts)
      writer_->text(group + name, evaluation.step, text);
  }

  void save(const SaveReport& report) {
    writer_->scalar("system/save_stood_still_seconds", report.step, report.stood_still.count());
    writer_->scalar("system/save_seconds", report.step, report.took.count());
  }

  std::string error() const {
    if (!writer_) return "";
    if (const std::string problem = writer_->error(); !problem.empty()) return problem;
    const std::int64_t dropped = writer_->dropped();
    return dropped == 0 ? "" : std::to_string(dropped) + " events were dropped, the disk is slow";
  }

  void end() {
    if (!options_.hyper_parameters.empty()) writer_->session_end();
    writer_->flush();
  }

 private:
  TensorBoardOptions options_;
  std::function<const torch::nn::Module&()> model_;
  std::optional<events::EventWriter> writer_;
};

TensorBoard::TensorBoard(TensorBoardOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
TensorBoard::~TensorBoard() = default;
std::string TensorBoard::error() const { return impl_->error(); }
void TensorBoard::started(const TrainingStart& start) { impl_->start(start); }
void TensorBoard::stepped(const StepReport&, const TrainingProgress& progress) {
  impl_->step(progress);
}
void TensorBoard::reported(const TrainingReport& report) { impl_->report(report); }
void TensorBoard::evaluated(const Evaluation& evaluation) { impl_->evaluation(evaluation); }
void TensorBoard::saved(const SaveReport& report) { impl_->save(report); }
void TensorBoard::ended(const TrainingEnd&) { impl_->end(); }

}  // namespace lockstep
