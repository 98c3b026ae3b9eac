#include "machines/network_machines.h"

#include <lockstep/error.h>

#include "machines/contract.h"
#include "machines/proof.h"
#include "machines/words.h"

namespace lockstep::machines {
namespace {

/// The first line: LibTorch appends a backtrace.
std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

/// A connection to the hub that has shown the secret. Tries until the deadline.
Socket reach_hub(const MachinesOptions& options, Clock::time_point deadline) {
  const Endpoint first = parse_endpoint(options.first);
  for (;;) {
    std::string why;
    Socket socket = connect_to(first, deadline, why);
    try {
      if (socket) {
        prove(socket, options.secret, first.text(), deadline);
        return socket;
      }
    } catch (const ConfigError&) {
      throw;
    } catch (const std::runtime_error& error) {
      why = error.what();
    }
    if (Clock::now() >= deadline)
      throw MachinesError({.lost = {"number 0 at " + first.text()},
                           .why = "it could not be reached in time (" + why +
                                  "): start it, and check its address, its port and firewalls"});
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

/// The keys of one group.
class GroupBoard : public Board {
 public:
  GroupBoard(Control& control, std::int64_t generation)
      : control_(control), generation_(generation) {}

  void set(const std::string& key, std::span<const std::byte> value) override {
    control_.set(generation_, key, value);
  }
  Bytes get(const std::string& key, Clock::time_point deadline) override {
    return control_.get(generation_, key, deadline);
  }
  bool has(const std::string& key) override { return control_.has(key); }
  void check() override { control_.require(generation_); }

 private:
  Control& control_;
  const std::int64_t generation_;
};

/// A transfer of nothing: it is over at once, unless there is trouble.
class EmptyTransfer : public Machines::Transfer {
 public:
  EmptyTransfer(std::shared_ptr<Control> control, std::int64_t generation)
      : control_(std::move(control)), generation_(generation) {}
  void wait() override { control_->require(generation_); }

 private:
  const std::shared_ptr<Control> control_;
  const std::int64_t generation_;
};

class NetworkTransfer : public Machines::Transfer {
 public:
  NetworkTransfer(std::shared_ptr<Control> control, std::int64_t generation, int other,
                  std::unique_ptr<Data::Transfer> transfer)
      : control_(std::move(control)),
        generation_(generation),
        other_(other),
        transfer_(std::move(transfer)) {}

  void wait() override {
    check(transfer_ != nullptr, "a transfer is waited for once");
    // Its end is before any exception: then nothing touches the caller's bytes any more.
    const std::unique_ptr<Data::Transfer> transfer = std::move(transfer_);
    std::string broken;
    bool done = false;
    try {
      done = transfer->wait();
    } catch (const std::exception& error) {
      broken = first_line(error);
    }
    control_->require(generation_);
    if (!done) control_->report_broken(generation_, other_, broken);
  }

 private:
  const std::shared_ptr<Control> control_;
  const std::int64_t generation_;
  const int other_;
  std::unique_ptr<Data::Transfer> transfer_;
};

}  // namespace

NetworkMachines::NetworkMachines(const MachinesOptions& options) : options_(options) {
  const auto deadline = Clock::now() + ticks(options.start);
  if (options.machine == 0) hub_ = std::make_unique<Hub>(options);
  Socket socket = hub_ ? hub_->own_end() : reach_hub(options, deadline);
  address_ = !options.address.empty() ? options.address
             : hub_                   ? hub_->address()
                                      : local_address(socket);
  control_ = std::make_shared<Control>(std::move(socket), options, address_,
                                       [current = current_] { current->abort(); });
  connect(control_->join(deadline), OnTrouble::give_up);
}

/// The good-bye is before the end of the data connections, so that nobody takes that for a loss.
NetworkMachines::~NetworkMachines() {
  control_->end();
  current_->set(nullptr);
}

void NetworkMachines::connect_once() {
  if (size() == 1) return;
  const bool mpi = options_.transport == MachineTransport::mpi;
  const DataOptions options{.address = address_,
                            .rank = rank(),
                            .size = size(),
                            .connect = mpi ? options_.start : options_.silence + Seconds(2),
                            .silence = options_.silence + Seconds(1)};
  const auto board = std::make_shared<GroupBoard>(*control_, group_.generation);
  current_->set(mpi ? connect_mpi(options, board) : connect_gloo(options, board));
}

/// Makes the data connections of a group. If another machine is lost or fails meanwhile, those of
/// the group after it.
void NetworkMachines::connect(Control::Group group, OnTrouble on_trouble) {
  for (;; group = control_->regroup()) {
    group_ = std::move(group);
    try {
      return connect_once();
    } catch (const ConfigError& error) {
      control_->abort(error.what());
      throw;
    } catch (const std::exception& error) {
      const bool mine = !control_->hears_of_trouble(group_.generation);
      if (mine)
        control_->abort("it could not connect to the others for data from its address " + address_ +
                        " (" + first_line(error) + "): check LOCKSTEP_ADDRESS and firewalls");
      if (mine || on_trouble == OnTrouble::give_up) control_->require(group_.generation);
    }
  }
}

void NetworkMachines::regroup() {
  if (auto trouble = control_->trouble();
      options_.transport == MachineTransport::mpi && trouble && !trouble->lost.empty()) {
    trouble->why += "; by MPI the others cannot go on without it, by gloo they could";
    throw MachinesError(*trouble);
  }
  Control::Group group = control_->regroup();
  current_->set(nullptr);
  connect(std::move(group), OnTrouble::regroup);
}

std::unique_ptr<Machines::Transfer> NetworkMachines::begin(int other, std::uint32_t tag,
                                                           std::size_t size,
                                                           const Begin& begin_it) {
  check_transfer(*this, other, tag);
  control_->require(group_.generation);
  if (size == 0) return std::make_unique<EmptyTransfer>(control_, group_.generation);
  const std::shared_ptr<Data> current = current_->get();
  std::string broken;
  try {
    return std::make_unique<NetworkTransfer>(control_, group_.generation, other,
                                             begin_it(*current));
  } catch (const std::exception& error) {
    broken = first_line(error);
  }
  control_->report_broken(group_.generation, other, broken);
}

std::unique_ptr<Machines::Transfer> NetworkMachines::send(int to, std::uint32_t tag,
                                                          std::span<const std::byte> bytes) {
  return begin(to, tag, bytes.size(), [&](Data& data) { return data.send(to, tag, bytes); });
}

std::unique_ptr<Machines::Transfer> NetworkMachines::receive(int from, std::uint32_t tag,
                                                             std::span<std::byte> bytes) {
  return begin(from, tag, bytes.size(), [&](Data& data) { return data.receive(from, tag, bytes); });
}

std::vector<std::string> NetworkMachines::waiting() const {
  return hub_ ? hub_->waiting() : std::vector<std::string>{};
}

void NetworkMachines::vanish() {
  if (hub_) hub_->vanish();
  control_->vanish();
}

void NetworkMachines::freeze() {
  if (hub_) hub_->freeze();
  control_->freeze();
}

}  // namespace lockstep::machines
