#include "families/classify/service.h"

#include "families/classify/predictor.h"

namespace lockstep::apps {
namespace {

class PredictService : public Service {
 public:
  explicit PredictService(const ServeFlags& flags)
      : predictor_({.path = flags.path, .weights = flags.weights, .newest = flags.newest}),
        batcher_([this](const auto& images) { return predictor_.predict(images, kMost); },
                 flags.limits) {}

  std::string name() const override { return "predict"; }

  nlohmann::ordered_json about() const override {
    return {{"about", predictor_.about()}, {"classes", predictor_.classes()}};
  }

  nlohmann::ordered_json answer(const std::string& body,
                                const std::map<std::string, std::string>& options) override {
    const auto top = static_cast<std::size_t>(option_of(options, "top", 5, 1, kMost));
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(body.data());
    const auto found = batcher_.ask(predictor_.seen("the picture", {bytes, body.size()}));
    nlohmann::ordered_json classes = nlohmann::ordered_json::array();
    for (const Prediction& one : found)
      if (classes.size() < top) classes.push_back({{"class", one.name}, {"score", one.score}});
    return {{"classes", classes}};
  }

 private:
  static constexpr int kMost = 1000;  // classes of an answer

  Predictor predictor_;
  Batcher<torch::Tensor, std::vector<Prediction>> batcher_;
};

}  // namespace

std::unique_ptr<Service> predict_service(const ServeFlags& flags) {
  return std::make_unique<PredictService>(flags);
}

}  // namespace lockstep::apps
