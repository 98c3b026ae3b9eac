#pragma once

// A small training for the tests: an MLP with dropout on made-up points.

#include <gtest/gtest.h>
#include <lockstep/input.h>
#include <lockstep/job.h>
#include <lockstep/mirrored.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace lockstep::testing {

struct Mlp : torch::nn::Module {
  Mlp() {
    one = register_module("one", torch::nn::Linear(6, 16));
    norm = register_module("norm", torch::nn::BatchNorm1d(16));
    two = register_module("two", torch::nn::Linear(16, 3));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return two(torch::dropout(torch::relu(norm(one(x))), 0.3, is_training()));
  }
  torch::nn::Linear one = nullptr, two = nullptr;
  torch::nn::BatchNorm1d norm = nullptr;
};

/// Points and their classes, made from their number.
struct Points {
  std::int64_t count = 104;
  std::int64_t size() const { return count; }
  torch::data::Example<> at(std::int64_t, std::int64_t index) const {
    KeyedRandom random(7, 0, index);
    torch::Tensor data = torch::empty({6});
    for (int i = 0; i < 6; ++i) data[i] = random.uniform() * 2 - 1;
    const auto label = static_cast<std::int64_t>(data[0].item<float>() > 0) +
                       static_cast<std::int64_t>(data[1].item<float>() > 0);
    return {data, torch::tensor(label)};
  }
};

using PointBatch = torch::data::Example<>;

struct SmallJob {
  int devices = 1;
  int shards = 4;
  Optimizer optimizer = Adam{.lr = 0.01};
  std::int64_t epochs = input::kEndless;
  std::vector<std::string> sets = {"test"};
  std::string vocabulary = {};  ///< a file of its checkpoints; empty: none
  DeviceKind kind = DeviceKind::cpu;
  OnDeviceFailure on_device_failure = OnDeviceFailure::stop;
  std::vector<Group> groups = {};
  std::optional<Asynchrony> async = std::nullopt;  ///< for make_with<Async<Mlp>>
  Precision precision = Precision::float32;
  std::shared_ptr<Machines> machines = nullptr;

  std::vector<Device> places() const {
    std::vector<Device> all;
    for (int index = 0; index < devices; ++index) all.push_back({kind, index});
    return all;
  }

  template <class Model = Mlp>
  std::unique_ptr<Job> make() const {
    return make_with<Mirrored<Model>, Model>();
  }

  template <class S, class Model = Mlp>
  std::unique_ptr<Job> make_with() const {
    const auto batches = input::batch(input::shuffle(Points{}, 3), 12);
    auto job = std::make_unique<StrategyJob<S, PointBatch>>(
        std::make_unique<S>(
            MirroredOptions{.method = {.shards = shards,
                                       .optimizer = optimizer,
                                       .groups = groups,
                                       .clip = {.global_norm = 0.5},
                                       .moving_average = MovingAverage{.decay = 0.9},
                                       .seed = 5,
                                       .precision = precision,
                                       .loss_scaling = {.initial = 1 << 10, .growth_interval = 2},
                                       .async = async},
                            .where = {.devices = places(),
                                      .machines = machines,
                                      .on_device_failure = on_device_failure}}),
        input::prefetch(batches, {.epochs = epochs}),
        [](Model& model, const PointBatch& shard) {
          const auto loss = torch::cross_entropy_loss(model.forward(shard.data), shard.target, {},
                                                      at::Reduction::Sum);
          return Loss{loss, static_cast<double>(shard.data.size(0))};
        },
        batches.size());
    if (!vocabulary.empty()) job->add_file("words", vocabulary);
    const auto test = input::batch(Points{.count = 30}, 10);
    for (const std::string& set : sets)
      job->add_set(
          set, test.size(), [=] { return input::prefetch(test, {.epochs = 1}); },
          [](Model& model, const PointBatch& batch) -> Metrics {
            const auto rows = static_cast<double>(batch.data.size(0));
            const torch::Tensor hits = (model.forward(batch.data).argmax(1) == batch.target).sum();
            return {{"accuracy", {hits.item<double>(), rows}}};
          });
    return job;
  }
};

/// An empty folder of the test's own.
inline std::string new_folder(const std::string& name) {
  static std::atomic<int> number = 0;
  const std::string path = ::testing::TempDir() + "/lockstep-" + std::to_string(::getpid()) + "-" +
                           name + "-" + std::to_string(number++);
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

}  // namespace lockstep::testing
