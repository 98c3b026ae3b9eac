// Times a detector's input beside its training: pictures/s that workers read, augment and match,
// and pictures/s of training steps of bench/step's workload ssd, one after the other. And what
// matching and hard example mining take of a step.
//
//   detect_input .deps/scenes/made/train.json .deps/scenes/made
//
// prints one line of JSON. Exit code 2: bad input.

#include <lockstep/error.h>
#include <lockstep/input.h>
#include <lockstep/mirrored.h>
#include <lockstep/vision/boxed_pictures.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstddef>
#include <exception>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "ssd.h"

namespace bench {
namespace {

namespace vision = lockstep::vision;
using Clock = std::chrono::steady_clock;

struct Arguments {
  std::string annotations, pictures;
  int workers = 2;
  int devices = 2;
  double seconds = 5;
};

/// Calls `action` for so many seconds, after some calls that do not count; returns calls a second.
template <class Action>
double rate(double seconds, int warmup, const Action& action) {
  for (int i = 0; i < warmup; ++i) action();
  const auto begin = Clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  int count = 0;
  while (count < 3 || passed() < seconds) {
    action();
    ++count;
  }
  return count / passed();
}

/// Pictures a second, with flip, crop and jitter: more than the recipe "detect" does.
double input_rate(const Arguments& arguments, std::shared_ptr<const vision::BoxSet> set,
                  const std::vector<vision::Corners>& anchors) {
  const vision::BoxedPictures pictures(
      std::move(set), {.augment = {.flip = true, .crop = true, .jitter = 0.3}, .anchors = anchors});
  const auto batches = lockstep::input::batch(lockstep::input::shuffle(pictures, 1),
                                              Ssd::kGlobalBatch, lockstep::input::Last::drop);
  const int depth = 2 * arguments.workers;
  const auto stream =
      lockstep::input::prefetch(batches, {.depth = depth, .workers = arguments.workers});
  return static_cast<double>(Ssd::kGlobalBatch) *
         rate(arguments.seconds, depth, [&] { stream->next().value(); });
}

double training_rate(const Arguments& arguments) {
  lockstep::MirroredOptions options = Ssd::options();
  options.where.devices = lockstep::cpu_devices(arguments.devices);
  options.method.shards = arguments.devices;
  lockstep::Mirrored<Ssd> towers(options);
  towers.model().fill();
  const std::vector<Ssd::Batch> batches = Ssd::batches();
  std::size_t steps = 0;
  return static_cast<double>(Ssd::kGlobalBatch) * rate(arguments.seconds, 3, [&] {
           towers.step(batches[steps++ % batches.size()],
                       [](Ssd& model, const Ssd::Batch& shard) { return model.loss(shard); });
         });
}

/// Calls `action(picture)` for the pictures in turn; returns seconds a call.
template <class Action>
double seconds_each(const Arguments& arguments, std::size_t pictures, const Action& action) {
  std::size_t next = 0;
  return 1 / rate(arguments.seconds / 4, 1, [&] { action(next++ % pictures); });
}

std::vector<vision::SeenBoxes> whole_pictures(const vision::BoxSet& set) {
  std::vector<vision::SeenBoxes> result;
  for (const vision::BoxedPicture& picture : set.pictures)
    result.push_back(vision::seen_boxes(picture.boxes, vision::whole_view(picture.size)));
  return result;
}

/// Of a model at the start of its training: boxes near their anchors, random losses.
double mining_seconds(const Arguments& arguments, const std::vector<vision::SeenBoxes>& things,
                      const std::vector<vision::Corners>& anchors) {
  const auto count = static_cast<std::int64_t>(anchors.size());
  torch::manual_seed(1);
  const torch::Tensor codes = torch::randn({count, 4}).mul_(0.5), losses = torch::rand({count});
  std::vector<vision::Corners> boxes;
  for (std::size_t i = 0; i < anchors.size(); ++i) {
    const float* const code = codes.const_data_ptr<float>() + 4 * i;
    boxes.push_back(vision::decode({code[0], code[1], code[2], code[3]}, anchors[i]));
  }
  const auto targets = vision::make_targets(anchors, things[0].things, things[0].labels);
  return seconds_each(arguments, 1, [&](std::size_t) {
    vision::mine({losses.const_data_ptr<float>(), anchors.size()}, boxes, targets.labels,
                 {.min_negatives = 3});
  });
}

void run(const Arguments& arguments) {
  at::set_num_threads(1);
  auto set = std::make_shared<vision::BoxSet>(
      vision::read_coco(arguments.annotations, arguments.pictures));
  vision::check_pictures(*set, vision::OnBadBox::skip, arguments.workers);
  const auto things = whole_pictures(*set);
  const std::vector<vision::Corners> anchors = vision::make_anchors();
  const double input = input_rate(arguments, set, anchors), training = training_rate(arguments);
  const double matching = seconds_each(arguments, things.size(), [&](std::size_t picture) {
    vision::make_targets(anchors, things[picture].things, things[picture].labels);
  });
  const double mining = mining_seconds(arguments, things, anchors);
  const double share = (matching + mining) * training / arguments.devices;
  std::cout << nlohmann::ordered_json{{"pictures", set->pictures.size()},
                                      {"workers", arguments.workers},
                                      {"devices", arguments.devices},
                                      {"input_pictures_per_s", input},
                                      {"training_pictures_per_s", training},
                                      {"input_over_training", input / training},
                                      {"matching_ms", 1e3 * matching},
                                      {"mining_ms", 1e3 * mining},
                                      {"matching_and_mining_share", share}}
            << std::endl;
}

int run_command_line(int argc, char** argv) {
  CLI::App app("Times the input of a detector beside its training; prints one line of JSON.");
  app.option_defaults()->always_capture_default();
  Arguments arguments;
  app.add_option("annotations", arguments.annotations, "COCO's JSON")->required();
  app.add_option("pictures", arguments.pictures, "the folder that its file names are relative to")
      ->required();
  app.add_option("--workers", arguments.workers, "threads of the input")
      ->check(CLI::Range(1, 1024));
  app.add_option("--devices", arguments.devices, "towers to train on")
      ->check(CLI::IsMember({1, 2, 4, 8, 16}));
  app.add_option("--seconds", arguments.seconds, "length of each measurement")
      ->check(CLI::Range(0.0, 3600.0));
  try {
    app.parse(argc, argv);
  } catch (const CLI::Error& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  run(arguments);
  return 0;
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  try {
    return bench::run_command_line(argc, argv);
  } catch (const lockstep::ConfigError& error) {
    std::cerr << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
