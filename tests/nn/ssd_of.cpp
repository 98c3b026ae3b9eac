// ssd_of: reads cases of a detector's matching, mining, losses and detections as JSON from standard
// input, and prints what the library makes of each, for tests/oracles/ssd_loss.py.

#include <lockstep/nn/ssd.h>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace {

using namespace lockstep;
using nlohmann::json;

std::vector<vision::Corners> boxes_of(const json& list) {
  std::vector<vision::Corners> boxes;
  for (const json& box : list)
    boxes.push_back({box.at(0).get<float>(), box.at(1).get<float>(), box.at(2).get<float>(),
                     box.at(3).get<float>()});
  return boxes;
}

/// [1, anchors, columns]
torch::Tensor tensor_of(const json& rows, torch::Dtype dtype) {
  std::vector<double> numbers;
  for (const json& row : rows)
    for (const json& number : row) numbers.push_back(number.get<double>());
  const auto count = static_cast<std::int64_t>(rows.size());
  return torch::tensor(numbers, torch::kFloat64).reshape({1, count, -1}).to(dtype);
}

json values_of(const Loss& loss) {
  json result = {{"sum", loss.sum.item<double>()}, {"weight", loss.weight}};
  for (const auto& [name, metric] : loss.metrics) result[name] = metric.value.item<double>();
  return result;
}

json detections_of(const nn::Ssd::Output& output, const std::vector<vision::Corners>& anchors,
                   const json& options) {
  const auto found = nn::detect(output, anchors, {{640, 480}},
                                {.least_score = options.at("least_score"),
                                 .most_overlap = options.at("most_overlap"),
                                 .most_per_class = options.at("most_per_class"),
                                 .most = options.at("most")});
  json result = json::array();
  for (const vision::Detection& one : found.front())
    result.push_back(
        {one.label, one.score, one.box.left, one.box.top, one.box.width, one.box.height});
  return result;
}

json result_of(const json& given) {
  const auto anchors = boxes_of(given.at("anchors")), things = boxes_of(given.at("things"));
  const vision::MatchOptions how{.overlap = given.at("overlap"), .force = given.at("force")};
  const vision::Targets targets =
      vision::make_targets(anchors, things, given.at("labels").get<std::vector<int>>(), how);
  const torch::Tensor labels = torch::tensor(targets.labels, torch::kInt64).unsqueeze(0);
  const torch::Tensor codes = tensor_of(json(targets.codes), torch::kFloat32);
  const nn::Ssd::Output output{tensor_of(given.at("codes"), torch::kFloat64).requires_grad_(),
                               tensor_of(given.at("logits"), torch::kFloat64).requires_grad_()};
  nn::SsdLossOptions options{
      .mining = {.most_overlap = given.at("mining").at("most_overlap"),
                 .negatives_per_positive = given.at("mining").at("negatives"),
                 .min_negatives = given.at("mining").at("min_negatives"),
                 .most = given.at("mining").at("most")},
      .alpha = given.at("alpha"),
      .gamma = given.at("gamma"),
      .background_as_zeros = given.at("background_as_zeros")};
  json result = {{"match", vision::match(anchors, things, how)},
                 {"labels", targets.labels},
                 {"codes", targets.codes}};
  result["mined"] = values_of(nn::ssd_loss(output, anchors, labels, codes, options));
  options.kind = nn::SsdLossKind::focal;
  result["focal"] = values_of(nn::ssd_loss(output, anchors, labels, codes, options));
  result["detections"] = detections_of(output, anchors, given.at("detection"));
  return result;
}

}  // namespace

int main() {
  torch::set_num_threads(1);
  const std::string text(std::istreambuf_iterator<char>(std::cin), {});
  json results = json::array();
  for (const json& given : json::parse(text)) results.push_back(result_of(given));
  std::puts(results.dump().c_str());
  return 0;
}
