// How training would scale over machines of 8 GPUs, simulated: nothing here was measured on a GPU
// or on a network but the two numbers of Talk.
//
//   scale chat                 # lines of JSON: weak and strong scaling on 1 to 64 machines
//
// Forward, backward and update of one device run on a simulated one with a GPU's published speeds;
// the exchange is Lockstep's own plan, message by message (scale_model.h). What hosts say to each
// other in a step is counted in a training on two machines.

#include <lockstep/nn/ssd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "collective/machine_meeting.h"
#include "machines/thread_machines.h"
#include "scale_profile.h"
#include "ssd.h"
#include "workloads.h"

namespace bench {
namespace {

using lockstep::Machines;
using torch::Tensor;

/// NVIDIA DGX A100 80GB, by its data sheets: float32 19.5 TFLOPS and 2039 GB/s a GPU, NVLink 600
/// GB/s both ways together, a 200 Gbit/s InfiniBand adapter for each GPU. Latencies and what
/// enqueuing takes are the simulator's defaults.
constexpr int kGroup = 8;
const lockstep::sim::Options kGpu{.devices = 4,
                                  .arithmetic_per_second = 19.5e12,
                                  .memory_bytes_per_second = 2039e9,
                                  .link_bytes_per_second = 25e9};  // to the host: PCIe 4
constexpr Link kNvLink{300e9, 10e-6}, kInfiniBand{25e9, 10e-6};

/// An all-gather through the first machine, as bench/machines.py --exchange measures it.
struct Talk {
  double base = 0.1e-3, each = 0.05e-3;  // seconds: of one, and more for each machine
  double bytes_per_second = 1e9;         // out of the first machine
};

/// The detector with its targets matched beforehand, as the workers of a training do it.
struct MatchedSsd : Ssd {
  using Batch = std::tuple<Tensor, Tensor, Tensor>;  // images, labels and codes of anchors
  lockstep::Loss loss(const Batch& batch) {
    const auto& [images, labels, codes] = batch;
    return lockstep::nn::ssd_loss(forward(images), anchors, labels, codes,
                                  {.mining = {.min_negatives = 3}});
  }
  static std::vector<Batch> batches() {
    const MatchedSsd model;
    const auto count = static_cast<std::int64_t>(model.anchors.size());
    const Tensor images = std::get<0>(Ssd::batches().front());
    Tensor labels = torch::zeros({images.size(0), count}, torch::kInt64);
    labels.narrow(1, 100, 20).fill_(1);
    return {{images, labels, torch::zeros({images.size(0), count, 4})}};
  }
};

/// `rows` of a batch, over and over, on sim:0.
template <class... Tensors>
std::tuple<Tensors...> rows_of(const std::tuple<Tensors...>& batch, std::int64_t rows) {
  return std::apply(
      [&](const auto&... all) {
        return std::tuple(
            all.index_select(0, torch::arange(rows) % all.size(0)).to(torch::Device("sim:0"))...);
      },
      batch);
}

/// Counts what a machine says to all, and what it sends of buffers.
class Counting : public Machines {
 public:
  explicit Counting(std::shared_ptr<Machines> inner) : inner_(std::move(inner)) {}
  std::int64_t rounds = 0, bytes = 0, buffers = 0;

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const std::string& name(int rank) const override { return inner_->name(rank); }
  std::int64_t generation() const override { return inner_->generation(); }
  std::vector<lockstep::Bytes> all_gather(std::span<const std::byte> mine) override {
    ++rounds;
    bytes += std::ssize(mine);
    return inner_->all_gather(mine);
  }
  std::unique_ptr<Transfer> send(int to, std::uint32_t tag,
                                 std::span<const std::byte> out) override {
    if (tag == lockstep::collective::kSpreadTag) buffers += std::ssize(out);
    return inner_->send(to, tag, out);
  }
  std::unique_ptr<Transfer> receive(int from, std::uint32_t tag, std::span<std::byte> in) override {
    return inner_->receive(from, tag, in);
  }
  void abort(const std::string& why) noexcept override { inner_->abort(why); }
  std::optional<lockstep::Trouble> trouble() const override { return inner_->trouble(); }
  void regroup() override { inner_->regroup(); }

 private:
  const std::shared_ptr<Machines> inner_;
};

/// What machines say in a step.
struct Said {
  double rounds = 0;
  double of_machine = 0, of_device = 0;  // bytes
  double buffers = 0;                    // bytes that a machine of kGroup devices sends of them
};

template <class Model>
Said said_by(int devices) {
  const auto two = lockstep::machines::threads(2);
  Said said;
  std::vector<std::jthread> threads;
  std::vector<std::exception_ptr> thrown(2);
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      try {
        const auto machine = std::make_shared<Counting>(two[static_cast<std::size_t>(rank)]);
        lockstep::MirroredOptions options = Model::options();
        options.where.devices.clear();
        for (int i = 0; i < devices; ++i)
          options.where.devices.push_back({lockstep::DeviceKind::sim, rank * devices + i});
        options.where.machines = machine;
        options.method.shards = 2 * devices;
        lockstep::Mirrored<Model> towers(options);
        towers.model().fill();
        const auto whole = Model::batches().front();
        const auto batch = std::apply(
            [&](const auto&... all) { return std::tuple(all.narrow(0, 0, 2 * devices)...); },
            whole);
        const auto step = [&] {
          towers.step(batch, [](Model& model, const auto& shard) { return model.loss(shard); });
        };
        step();  // the first compares weights
        const std::int64_t rounds = machine->rounds, bytes = machine->bytes;
        const std::int64_t buffers = machine->buffers;
        step();
        if (rank == 0)
          said = {static_cast<double>(machine->rounds - rounds),
                  static_cast<double>(machine->bytes - bytes), 0,
                  static_cast<double>(machine->buffers - buffers)};
      } catch (...) {
        thrown[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  threads.clear();
  for (const auto& error : thrown)
    if (error) std::rethrow_exception(error);
  return said;
}

/// Split into what each machine says and what it says for each of its devices; without the squares
/// of the norm, 8 bytes a block, which are the same in all whatever there is.
template <class Model>
Said said_in_a_step(double squares) {
  const Said one = said_by<Model>(1), two = said_by<Model>(2);
  const double of_device = two.of_machine - one.of_machine;
  // To one other machine went half of what each of its devices has, and half of the means.
  const double buffers = one.buffers + (kGroup - 1) * (two.buffers - one.buffers);
  return {one.rounds, std::max(one.of_machine - of_device - squares / 2, 0.0), of_device,
          2 * buffers};
}

struct Batches {
  std::int64_t weak = 0;    // rows of a device
  std::int64_t strong = 0;  // rows of all
};

template <class Model>
void run(const std::string& name, const Batches& batches, const Talk& talk,
         std::int64_t bucket_bytes, int most) {
  const lockstep::Method method = Model::options().method;
  Model host;
  const Cuts cuts(host, bucket_bytes);
  double squares = 0, bytes = 0;
  for (const auto& layout : cuts.layouts) {
    squares += 8.0 * static_cast<double>(layout.size) / lockstep::arena::kBlock;
    bytes += static_cast<double>(layout.size) * static_cast<double>(c10::elementSize(layout.dtype));
  }
  const Said said = said_in_a_step<Model>(squares);
  Model model;
  model.to(torch::Device("sim:0"));
  const auto batch = Model::batches().front();
  std::map<std::int64_t, DeviceTimes> known;
  const auto times_of = [&](std::int64_t rows) {
    if (const auto found = known.find(rows); found != known.end()) return found->second;
    const auto own = rows_of(batch, rows);
    return known[rows] = passes(model, cuts, own);
  };
  for (const bool weak : {true, false}) {
    double alone = 0;  // samples/s of one machine
    for (int machines = 1; machines <= most; machines *= 2) {
      const int towers = machines * kGroup;
      const std::int64_t rows = weak ? batches.weak : batches.strong / towers;
      if (rows == 0) break;
      DeviceTimes times = times_of(rows);
      add_update(times, cuts, towers, method);
      const auto plan = plan_of(cuts.layouts, cuts.buckets, towers, kGroup);
      Cluster cluster{.group = kGroup,
                      .inside = kNvLink,
                      .across = kInfiniBand,
                      .memory_bytes_per_second = kGpu.memory_bytes_per_second};
      const StepTime slow = step_time(plan, cluster, times);
      cluster.transfers = Transfers::together;
      const StepTime fast = step_time(plan, cluster, times);
      // The first machine hears every machine and tells all of them everything.
      const double all = squares + machines * (said.of_machine + kGroup * said.of_device);
      const double talked =
          machines == 1 ? 0
                        : said.rounds * (talk.base + talk.each * machines) +
                              ((machines - 1) * all + said.buffers * (machines - 1) / machines) /
                                  talk.bytes_per_second;
      const double best = fast.total + talked;
      const double samples = static_cast<double>(rows * towers) / best;
      if (machines == 1) alone = samples;
      const double own = times.computed + times.reduced + times.updated;
      std::cout << nlohmann::ordered_json{{"workload", name},
                                          {"scaling", weak ? "weak" : "strong"},
                                          {"machines", machines},
                                          {"rows_a_device", rows},
                                          {"step_ms", 1e3 * best},
                                          {"step_one_by_one_ms", 1e3 * (slow.total + talked)},
                                          {"passes_ms", 1e3 * times.computed},
                                          {"norm_and_update_ms",
                                           1e3 * (times.reduced + times.updated)},
                                          {"exchange_ms", 1e3 * (fast.total - own)},  // exposed
                                          {"talk_ms", 1e3 * talked},
                                          {"efficiency", samples / alone / machines},
                                          {"samples_per_s", samples},
                                          {"gradient_mb", 1e-6 * bytes},
                                          {"said_mb", 1e-6 * all}}
                       .dump()
                << std::endl;
    }
  }
}

int run_command_line(int argc, char** argv) {
  CLI::App app("Simulates training on 1 to 64 machines of 8 GPUs; prints lines of JSON.");
  std::string workload;
  Talk talk;
  std::int64_t bucket_bytes = lockstep::Exchanging{}.bucket_bytes;
  int most = 64;
  app.add_option("workload", workload, "what to train")
      ->required()
      ->check(CLI::IsMember({"chat", "mobilenet", "ssd"}));
  app.add_option("--machines", most, "the most")->check(CLI::Range(1, 64))->capture_default_str();
  app.add_option("--bucket-bytes", bucket_bytes, "see Exchanging")->capture_default_str();
  app.add_option("--talk", talk.base, "seconds of an all-gather between hosts")
      ->capture_default_str();
  app.add_option("--talk-each", talk.each, "and more for each machine")->capture_default_str();
  app.add_option("--talk-bytes", talk.bytes_per_second, "a second, from the first machine")
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::Error& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  lockstep::sim::configure(kGpu);
  if (workload == "chat") run<Chat>(workload, {64, 4096}, talk, bucket_bytes, most);
  if (workload == "mobilenet") run<MobileNet>(workload, {64, 2048}, talk, bucket_bytes, most);
  if (workload == "ssd") run<MatchedSsd>(workload, {32, 512}, talk, bucket_bytes, most);
  return 0;
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  try {
    return bench::run_command_line(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
