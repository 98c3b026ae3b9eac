#pragma once

#include <lockstep/machines.h>

#include "machines/control.h"
#include "machines/data.h"
#include "machines/hub.h"

namespace lockstep::machines {

/// The data connections of the group of the moment.
class CurrentData {
 public:
  std::shared_ptr<Data> get() const {
    const std::lock_guard lock(mutex_);
    return data_;
  }
  void set(std::shared_ptr<Data> data) {
    const std::lock_guard lock(mutex_);
    data_.swap(data);  // what was there ends after the lock
  }
  void abort() const {
    if (const std::shared_ptr<Data> data = get()) data->abort();
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<Data> data_;  // guarded by mutex_
};

/// Machines that are connected to the hub of the first, and to each other for data.
class NetworkMachines : public Machines {
 public:
  /// Options that were checked; with a name. Returns when the first group is there.
  explicit NetworkMachines(const MachinesOptions& options);
  ~NetworkMachines() override;
  NetworkMachines(const NetworkMachines&) = delete;
  NetworkMachines& operator=(const NetworkMachines&) = delete;

  int rank() const override { return group_.rank; }
  int size() const override { return static_cast<int>(group_.names.size()); }
  const std::string& name(int rank) const override {
    return group_.names.at(static_cast<std::size_t>(rank));
  }
  std::int64_t generation() const override { return group_.generation; }

  std::vector<Bytes> all_gather(std::span<const std::byte> mine) override {
    return control_->all_gather(mine);
  }
  std::unique_ptr<Transfer> send(int to, std::uint32_t tag,
                                 std::span<const std::byte> bytes) override;
  std::unique_ptr<Transfer> receive(int from, std::uint32_t tag,
                                    std::span<std::byte> bytes) override;
  void abort(const std::string& why) noexcept override { control_->abort(why); }
  std::optional<Trouble> trouble() const override { return control_->trouble(); }
  void regroup() override;
  std::vector<std::string> waiting() const override;

  /// For tests: to end as a process that is killed, and to stop as one that is stopped.
  void vanish();
  void freeze();

 private:
  using Begin = std::function<std::unique_ptr<Data::Transfer>(Data&)>;
  std::unique_ptr<Transfer> begin(int other, std::uint32_t tag, std::size_t size,
                                  const Begin& begin_it);
  enum class OnTrouble { give_up, regroup };
  void connect(Control::Group group, OnTrouble on_trouble);
  void connect_once();

  const MachinesOptions options_;
  std::string address_;
  std::unique_ptr<Hub> hub_;  // on the first machine
  const std::shared_ptr<CurrentData> current_ = std::make_shared<CurrentData>();
  std::shared_ptr<Control> control_;
  Control::Group group_;  // written by regroup() only
};

}  // namespace lockstep::machines
