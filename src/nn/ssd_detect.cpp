#include <lockstep/error.h>
#include <lockstep/nn/ssd.h>

#include <algorithm>
#include <span>

namespace lockstep::nn {

std::vector<std::vector<vision::Detection>> detect(const Ssd::Output& output,
                                                   const std::vector<vision::Corners>& anchors,
                                                   const std::vector<vision::ImageSize>& sizes,
                                                   const vision::DetectionOptions& options) {
  const std::size_t count = anchors.size();
  check(output.logits.dim() == 3 && output.codes.dim() == 3 &&
            output.codes.size(1) == static_cast<std::int64_t>(count),
        "the output is of other anchors");
  check(output.logits.size(0) == static_cast<std::int64_t>(sizes.size()),
        "there must be a size for each row");
  const auto columns = static_cast<std::size_t>(output.logits.size(2));
  const torch::Tensor scores =
      output.logits.detach().to(torch::kFloat32).sigmoid().to(torch::kCPU).contiguous();
  const torch::Tensor codes = output.codes.detach().to(torch::kCPU, torch::kFloat32).contiguous();
  const std::span all_scores(scores.const_data_ptr<float>(),
                             static_cast<std::size_t>(scores.numel()));
  const float* code = codes.const_data_ptr<float>();
  std::vector<vision::BoxCode> own(count);
  std::vector<std::vector<vision::Detection>> found;
  for (const vision::ImageSize& size : sizes) {
    for (vision::BoxCode& one : own) {
      std::copy_n(code, one.size(), one.begin());
      code += one.size();
    }
    found.push_back(vision::detections(
        anchors, own, all_scores.subspan(found.size() * count * columns, count * columns),
        static_cast<int>(columns) - 1, size.width, size.height, options));
  }
  return found;
}

}  // namespace lockstep::nn
