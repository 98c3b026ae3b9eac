#include "families/detect/service.h"

#include <lockstep/vision/image_file.h>

#include "families/detect/detector.h"

namespace lockstep::apps {
namespace {

class DetectService : public Service {
 public:
  explicit DetectService(const ServeFlags& flags)
      : detector_({.path = flags.path,
                   .weights = flags.weights,
                   .newest = flags.newest,
                   .overlap = std::nullopt,
                   .most = std::nullopt}),
        batcher_([this](const auto& pictures) { return find(pictures); }, flags.limits) {}

  std::string name() const override { return "detect"; }

  nlohmann::ordered_json about() const override {
    return {{"about", detector_.about()}, {"classes", detector_.classes().names}};
  }

  nlohmann::ordered_json answer(const std::string& body,
                                const std::map<std::string, std::string>&) override {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(body.data());
    const Image picture = vision::decode_image("the picture", {bytes, body.size()});
    const auto found =
        batcher_.ask({detector_.seen(picture), vision::ImageSize{picture.width, picture.height}});
    nlohmann::ordered_json things = nlohmann::ordered_json::array();
    for (const auto& [box, label, score] : found)
      things.push_back({{"class", detector_.classes().names[static_cast<std::size_t>(label)]},
                        {"score", score},
                        {"box", {box.left, box.top, box.width, box.height}}});
    return {{"width", picture.width}, {"height", picture.height}, {"found", things}};
  }

 private:
  struct Seen {
    torch::Tensor input;
    vision::ImageSize size;
  };

  std::vector<std::vector<vision::Detection>> find(const std::vector<Seen>& pictures) {
    std::vector<torch::Tensor> inputs;
    std::vector<vision::ImageSize> sizes;
    for (const Seen& one : pictures) {
      inputs.push_back(one.input);
      sizes.push_back(one.size);
    }
    return detector_.find(inputs, sizes);
  }

  Detector detector_;
  Batcher<Seen, std::vector<vision::Detection>> batcher_;
};

}  // namespace

std::unique_ptr<Service> detect_service(const ServeFlags& flags) {
  return std::make_unique<DetectService>(flags);
}

}  // namespace lockstep::apps
