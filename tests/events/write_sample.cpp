// Writes one of everything into a folder, and expected.json, what a reader should find in it.
// tests/oracles/tensorboard_reads.py FOLDER FOLDER/expected.json compares the two.

#include <lockstep/events.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

namespace {

using namespace lockstep;
using namespace lockstep::events;
using Json = nlohmann::json;

Json write_scalars(EventWriter& writer) {
  Json expected = Json::object();
  for (int step = 0; step < 200; ++step)
    for (const auto& [tag, value] : {std::pair{"loss/total", std::exp(-step / 50.0)},
                                     {"loss/cpu:0", 1.1 * std::exp(-step / 50.0)},
                                     {"train/learning_rate", 0.1 / (1 + step)}}) {
      writer.scalar(tag, step, value);
      expected[tag].push_back({step, static_cast<double>(static_cast<float>(value))});
    }
  return expected;
}

/// A run that was killed after step 19 and resumed from step 10: the second file counts.
Json write_twice(const std::string& folder) {
  Json expected = Json::array();
  for (const int first : {0, 10}) {
    EventWriterOptions options;
    if (first > 0) options.resumed_at = first;
    EventWriter writer(folder, options);
    for (int step = first; step < 20; ++step) {
      writer.scalar("resumed", step, first + 1);
      if (first > 0 || step < 10) expected.push_back({step, first + 1});
    }
  }
  return expected;
}

Json write_histograms(EventWriter& writer) {
  Json expected = Json::object();
  for (int step = 0; step < 10; ++step) {
    std::vector<float> values;
    for (int i = -500; i <= 500; ++i)
      values.push_back(static_cast<float>(std::pow(i / 500.0, 3) * (1 + step)));
    writer.histogram("weights/fc", step, values);
    expected["weights/fc"].push_back(
        {{"step", step}, {"count", 1001}, {"least", values.front()}, {"greatest", values.back()}});
  }
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  writer.histogram("weights/broken", 0,
                   std::vector<float>{1, 2, kInfinity, -kInfinity, std::nanf("")});
  expected["weights/broken"].push_back({{"step", 0}, {"count", 2}, {"least", 1}, {"greatest", 2}});
  writer.histogram("weights/none", 0, {});
  expected["weights/none"].push_back({{"step", 0}, {"count", 0}, {"least", 0}, {"greatest", 0}});
  return expected;
}

Json write_images(EventWriter& writer) {
  Json expected = Json::object();
  for (const int channels : {1, 3, 4}) {
    Image image{.width = 48, .height = 32, .channels = channels, .pixels = {}};
    for (int y = 0; y < image.height; ++y)
      for (int x = 0; x < image.width; ++x)
        for (int channel = 0; channel < channels; ++channel)
          image.pixels.push_back(
              channel == 3 ? 255 : static_cast<std::uint8_t>(channel == 0 ? x * 5 : y * 7));
    const std::string tag = "pictures/" + std::to_string(channels) + " channels";
    writer.image(tag, 3, image);
    expected[tag] = {{"step", 3}, {"width", 48}, {"height", 32}, {"channels", channels}};
  }
  return expected;
}

Json write_text(EventWriter& writer) {
  const std::string recipe =
      "| field | value |\n|---|---|\n| model | `resnet20` |\n| naïve | *no* |\n";
  writer.text("recipe", 0, recipe);
  return {{"recipe", recipe}};
}

Json write_hyper_parameters(EventWriter& writer) {
  writer.hyper_parameters(
      {{"lr", 0.1}, {"batch", 128.0}, {"nesterov", true}, {"model", "resnet20"}},
      {"loss/total", "train/learning_rate"});
  writer.session_end();
  return {{"values", {{"lr", 0.1}, {"batch", 128.0}, {"nesterov", true}, {"model", "resnet20"}}},
          {"metrics", {"loss/total", "train/learning_rate"}},
          {"status", "STATUS_SUCCESS"}};
}

Json write_graph(EventWriter& writer) {
  const std::vector<GraphNode> nodes = {
      {.name = "input", .op = "Input", .inputs = {}, .attributes = {}},
      {.name = "net/conv1",
       .op = "Conv2d",
       .inputs = {"input"},
       .attributes = {{"weight", "[16, 3, 3, 3]"}}},
      {.name = "net/layer1/bn", .op = "BatchNorm2d", .inputs = {"net/conv1"}, .attributes = {}},
      {.name = "net/fc",
       .op = "Linear",
       .inputs = {"net/layer1/bn"},
       .attributes = {{"bias", "[10]"}}}};
  writer.graph(nodes);
  Json expected = Json::array();
  for (const GraphNode& node : nodes)
    expected.push_back({{"name", node.name},
                        {"op", node.op},
                        {"inputs", node.inputs},
                        {"attributes", node.attributes}});
  return expected;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return std::fprintf(stderr, "usage: write_sample FOLDER\n"), 2;
  const std::string folder = arguments[1];
  const Json resumed = write_twice(folder);
  EventWriter writer(folder);
  Json expected;
  expected["scalars"] = write_scalars(writer);
  expected["scalars"]["resumed"] = resumed;
  expected["histograms"] = write_histograms(writer);
  expected["images"] = write_images(writer);
  expected["text"] = write_text(writer);
  expected["hyper_parameters"] = write_hyper_parameters(writer);
  expected["graph"] = write_graph(writer);
  writer.flush();
  if (!writer.error().empty() || writer.dropped() != 0)
    return std::fprintf(stderr, "write_sample: %s\n", writer.error().c_str()), 1;
  std::ofstream(folder + "/expected.json") << expected.dump(1) << '\n';
}
