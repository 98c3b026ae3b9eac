// Times what machines exchange in a step, reduce and gather without a model and an optimizer,
// beside a plain all-reduce of as many bytes by the engine underneath, LibTorch's Gloo.
//
//   exchange --megabytes 100
//
// One process a machine, one device each, started with a launcher's variables; bench/machines.py
// --exchange does that. Both take turns; a round takes as long as its slowest machine. The first
// machine checks the sums and prints one line of JSON. For the all-reduce it listens on the port
// after Lockstep's.

#define USE_C10D_GLOO
#include <lockstep/lockstep.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>

#include "collective/across_machines.h"

namespace bench {
namespace {

using lockstep::Machines;
using lockstep::collective::GradientSlice;
using lockstep::collective::ShardSum;

constexpr std::int64_t kParameter = 1'000'000;  // elements

/// Seconds of `work`, of the slowest machine.
template <class Work>
double slowest(Machines& machines, const Work& work) {
  machines.all_gather({});
  const auto begin = std::chrono::steady_clock::now();
  work();
  const double own =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  double most = 0;
  for (const lockstep::Bytes& bytes : machines.all_gather(std::as_bytes(std::span(&own, 1)))) {
    double theirs = 0;
    std::memcpy(&theirs, bytes.data(), sizeof theirs);
    most = std::max(most, theirs);
  }
  return most;
}

/// One tower a machine, each with one shard whose gradients are all rank + 1.
class Exchanged {
 public:
  Exchanged(const std::shared_ptr<Machines>& machines, std::int64_t parameters,
            std::int64_t bucket_bytes)
      : machines_(machines),
        layouts_(lockstep::arena::layouts(entries(parameters))),
        buckets_(lockstep::arena::buckets(layouts_, bucket_bytes)),
        flat_(lockstep::arena::allocate(layouts_.front(), torch::kCPU)) {
    std::vector<lockstep::collective::Shares> shares;
    for (int machine = 0; machine < machines->size(); ++machine)
      shares.push_back({machine, machine + 1});
    const std::vector<int> towers(shares.size(), 1);
    collective_ = std::make_unique<lockstep::collective::AcrossMachines>(
        machines,
        std::make_unique<lockstep::collective::MachineMeeting>(machines, towers,
                                                               lockstep::DeviceKind::cpu),
        lockstep::collective::MachinePlan(towers, shares, machines->size()), layouts_, buckets_,
        std::vector{flat_});
    sums_.front().first = machines->rank();
    for (std::int64_t i = 0; i < parameters; ++i)
      sums_.front().gradients.push_back(
          torch::full({kParameter}, static_cast<float>(machines->rank() + 1)));
    for (const lockstep::arena::Bucket& bucket : buckets_) {
      const auto range = lockstep::arena::slice_of(bucket, machines->rank(), machines->size());
      const auto blocks = (range.size() + lockstep::arena::kBlock - 1) / lockstep::arena::kBlock;
      slices_.push_back({&layouts_.front(), range, torch::empty({range.size()}),
                         std::vector<double>(static_cast<std::size_t>(blocks))});
    }
  }

  /// The sums, unlike those of a training, become the parameters.
  void run() {
    const int tower = machines_->rank();
    collective_->reset();
    for (std::size_t bucket = buckets_.size(); bucket-- > 0;)
      collective_->post(tower, bucket, sums_);
    collective_->reduce(tower, sums_, 1, slices_);
    for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket)
      collective_->updated(tower, bucket);
    collective_->gather(tower);
  }

  /// Whether all parameters are the sum over machines, if the owners put it there.
  void check_sums() {
    for (const GradientSlice& slice : slices_)
      flat_.narrow(0, slice.range.begin, slice.range.size()).copy_(slice.gradient);
    run();
    const int size = machines_->size();
    lockstep::check((flat_ == size * (size + 1) / 2).all().item<bool>(), "the sum is wrong");
  }

 private:
  static std::vector<lockstep::arena::Entry> entries(std::int64_t parameters) {
    std::vector<lockstep::arena::Entry> result;
    for (std::int64_t i = 0; i < parameters; ++i)
      result.push_back({std::to_string(i), torch::empty({kParameter})});
    return result;
  }

  const std::shared_ptr<Machines> machines_;
  const std::vector<lockstep::arena::Layout> layouts_;
  const std::vector<lockstep::arena::Bucket> buckets_;
  const torch::Tensor flat_;
  std::unique_ptr<lockstep::collective::AcrossMachines> collective_;
  std::vector<ShardSum> sums_ = std::vector<ShardSum>(1);
  std::vector<GradientSlice> slices_;
};

/// c10d's group on the same network, with its own connections.
c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo(const Machines& machines,
                                                const lockstep::MachinesOptions& options) {
  const auto colon = options.first.rfind(':');
  c10d::TCPStoreOptions store;
  store.port = static_cast<std::uint16_t>(std::stoi(options.first.substr(colon + 1)) + 1);
  store.isServer = machines.rank() == 0;
  store.numWorkers = static_cast<std::size_t>(machines.size());
  auto settings = c10d::ProcessGroupGloo::Options::create(std::chrono::minutes(5));
  settings->devices.push_back(
      options.address.empty()
          ? c10d::ProcessGroupGloo::createDeviceForInterface("eth0", false)
          : c10d::ProcessGroupGloo::createDeviceForHostname(options.address, false));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(
      c10::make_intrusive<c10d::TCPStore>(options.first.substr(0, colon), store), machines.rank(),
      machines.size(), settings);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

nlohmann::ordered_json measure(const lockstep::MachinesOptions& options, std::int64_t megabytes,
                               int rounds, std::int64_t bucket_bytes) {
  at::set_num_threads(1);
  const std::shared_ptr<Machines> machines = lockstep::join(options);
  const std::int64_t parameters = std::max<std::int64_t>(1, megabytes * 1000000 / 4 / kParameter);
  Exchanged exchanged(machines, parameters, bucket_bytes);
  exchanged.run();
  exchanged.check_sums();
  const auto group = gloo(*machines, options);
  std::vector<torch::Tensor> whole{torch::ones({parameters * kParameter})};
  group->allreduce(whole)->wait();
  lockstep::check((whole.front() == machines->size()).all().item<bool>(), "Gloo's sum is wrong");

  std::vector<double> ours, plain, words, letters;
  const lockstep::Bytes letter(1 << 20);
  for (int round = 0; round < rounds; ++round) {
    words.push_back(slowest(*machines, [&] { machines->all_gather({}); }));
    letters.push_back(slowest(*machines, [&] { machines->all_gather(letter); }));
    ours.push_back(slowest(*machines, [&] { exchanged.run(); }));
    plain.push_back(slowest(*machines, [&] { group->allreduce(whole)->wait(); }));
    whole.front().fill_(1);
  }
  const double bytes = 4.0 * static_cast<double>(parameters * kParameter) * 2 *
                       (machines->size() - 1) / machines->size();
  return {{"machines", machines->size()},
          {"rank", machines->rank()},
          {"megabytes", 4e-6 * static_cast<double>(parameters * kParameter)},
          {"exchange_ms", 1e3 * median(ours)},
          {"allreduce_ms", 1e3 * median(plain)},
          {"ratio", median(ours) / median(plain)},
          {"best_ratio", std::ranges::min(ours) / std::ranges::min(plain)},
          {"exchange_mb_per_s", 1e-6 * bytes / median(ours)},  // sent by each machine
          {"allreduce_mb_per_s", 1e-6 * bytes / median(plain)},
          {"word_ms", 1e3 * median(words)},          // an all-gather of nothing
          {"letter_mb_ms", 1e3 * median(letters)}};  // of 1 MiB a machine, through the first
}

int run_command_line(int argc, char** argv) {
  CLI::App app("Times reduce and gather between machines beside Gloo's all-reduce.");
  std::int64_t megabytes = 100, bucket_bytes = lockstep::Exchanging{}.bucket_bytes;
  int rounds = 9;
  app.add_option("--megabytes", megabytes, "of gradients")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--rounds", rounds, "of both, in turn")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--bucket-bytes", bucket_bytes, "see Exchanging")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::Error& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const auto options = lockstep::launched([](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value ? std::optional<std::string>(value) : std::nullopt;
  });
  if (!options)
    throw lockstep::ConfigError(
        "no launcher's variables: start one process a machine, as bench/machines.py does");
  const auto report = measure(*options, megabytes, rounds, bucket_bytes);
  if (report.at("rank") == 0) std::cout << report.dump() << std::endl;
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
