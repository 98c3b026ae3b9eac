// Buffers that forward replaces, that no shard changes, or that an evaluation writes.

#include "refusal.h"

namespace buffers_test {

using namespace refusal;

// Buffers that are replaced in forward.

struct ReplacesABuffer : Base {
  ReplacesABuffer() { seen = register_buffer("seen", torch::zeros({12})); }
  torch::Tensor forward(const torch::Tensor& x) {
    if (is_training()) seen.set_data(seen.detach() * 0.9 + x.detach().mean(0) * 0.1);
    return linear(x - seen);
  }
  torch::Tensor seen;
};

struct WritesABuffer : Base {
  WritesABuffer() { seen = register_buffer("seen", torch::zeros({12})); }
  torch::Tensor forward(const torch::Tensor& x) {
    if (is_training()) seen.copy_(seen.detach() * 0.9 + x.detach().mean(0) * 0.1);
    return linear(x - seen);
  }
  torch::Tensor seen;
};

TEST(Buffers, ABufferReplacedInForwardIsAsGoodAsOneWrittenInPlace) {
  const auto trained = [](auto model, const std::vector<Device>& devices) {
    Mirrored<decltype(model)> towers(
        {.method = {.shards = 4, .optimizer = Sgd{.lr = 0.1}}, .where = {.devices = devices}});
    for (int step = 0; step < 4; ++step) towers.step(models::vectors(step), models::CrossEntropy{});
    return towers.state();
  };
  const State written = trained(WritesABuffer{}, cpu_devices(1));
  for (const auto& list :
       {cpu_devices(1), cpu_devices(3), on_sim::sim_devices(1), on_sim::sim_devices(3)})
    EXPECT_EQ(first_difference(written, trained(ReplacesABuffer{}, list)), "")
        << list.front().name();
}

struct AssignsABuffer : ReplacesABuffer {
  torch::Tensor forward(const torch::Tensor& x) {
    seen = seen * 0.9 + x.detach().mean(0) * 0.1;
    return linear(x - seen);
  }
};

struct GrowsABuffer : Base {
  GrowsABuffer() { seen = register_buffer("seen", torch::zeros({1, 12})); }
  torch::Tensor forward(const torch::Tensor& x) {
    seen.set_data(torch::cat({seen, x.detach().mean(0, true)}));
    return linear(x - seen.mean(0));
  }
  torch::Tensor seen;
};

struct FillsAnEmptyBuffer : Base {
  FillsAnEmptyBuffer() { seen = register_buffer("seen", torch::zeros({0})); }
  torch::Tensor forward(const torch::Tensor& x) {
    seen.resize_({12}).copy_(x.detach().mean(0));
    return linear(x - seen);
  }
  torch::Tensor seen;
};

TEST(Buffers, BuffersAssignedOrGrownInForward) {
  expect_step_refused<AssignsABuffer>("seen", "in place");
  expect_step_refused<GrowsABuffer>("seen", "keeps both");
  expect_step_refused<FillsAnEmptyBuffer>("seen", "keeps both");
}

// Buffers that no shard changes.

struct Constants : Base {
  Constants() {
    register_buffer("lowest", torch::full({3}, std::numeric_limits<float>::lowest()));
    register_buffer("half", torch::full({3}, 40000.0, torch::kHalf));
    register_buffer("tenth", torch::full({3}, 0.1F));
    register_buffer("complex", torch::full({3}, c10::complex<float>(0.1F, 0.3F)));
  }
  torch::Tensor forward(const torch::Tensor& x) { return linear(x); }
};

TEST(Buffers, ConstantBuffersStayWhatTheyAre) {
  for (const int shards : {1, 2, 3, 7, 8, 12})
    for (auto list : {cpu_devices(2), on_sim::sim_devices(2)}) {
      MirroredOptions how = options(2, shards);
      how.where.devices = list;
      Mirrored<Constants> towers(how);
      const State before = towers.state();
      for (int step = 0; step < 3; ++step)
        towers.step(models::vectors(step, 24), models::CrossEntropy{});
      EXPECT_EQ(difference(before.buffers, towers.state().buffers), "") << shards << " shards";
    }
}

struct HalfStatistics : Base {
  HalfStatistics() { top = register_buffer("top", torch::zeros({12}, torch::kHalf)); }
  torch::Tensor forward(const torch::Tensor& x) {
    top.copy_(40000 + 1000 * std::get<0>(x.detach().max(0)));
    return linear(x);
  }
  torch::Tensor top;
};

TEST(Buffers, AMeanOfHalvesDoesNotOverflow) {
  Mirrored<HalfStatistics> towers(options(2));
  towers.step(models::vectors(0), models::CrossEntropy{});
  EXPECT_TRUE(torch::isfinite(towers.state().buffers[0].value).all().item<bool>());
}

// Evaluation that writes buffers.

TEST(Buffers, EvaluationDoesNotDependOnDevicesThoughForwardWritesABuffer) {
  const auto metric = [](WritesABuffer& model, const models::Batch& batch) -> Metrics {
    model.train();  // so that it writes
    return {{"sum", {model.forward(batch.first).sum().item<double>(), 1}}};
  };
  std::vector<models::Batch> batches;
  for (int i = 0; i < 9; ++i) batches.push_back(models::vectors(i));
  const auto evaluated = [&](const std::vector<Device>& devices) {
    MirroredOptions how = options(1);
    how.where.devices = devices;
    Mirrored<WritesABuffer> towers(how);
    return towers.evaluate(batches, metric)["sum"].sum;
  };
  const double one = evaluated(cpu_devices(1));
  for (const int devices : {2, 3}) {
    EXPECT_EQ(one, evaluated(cpu_devices(devices)));
    EXPECT_EQ(one, evaluated(on_sim::sim_devices(devices)));
  }
}

}  // namespace buffers_test
