#pragma once

// The collective of the CPU devices of several machines: shared memory inside of each, messages
// between them. See machine_plan.h for what goes where.

#include <memory>
#include <mutex>
#include <vector>

#include "collective/collective.h"
#include "collective/machine_meeting.h"
#include "collective/machine_plan.h"
#include "collective/slice_sum.h"

namespace lockstep::collective {

/// A bucket is sent as soon as all towers of this machine have posted it, while backward goes on;
/// what arrives waits in memory of its own until `reduce`. Updated parameters are sent bucket by
/// bucket too, while the next one is updated, and arrive where they belong.
class AcrossMachines : public Collective {
 public:
  /// `meeting` is of the same machines and towers. `layouts` and `buckets` must live on.
  /// `parameters` are the arenas that all towers of this machine share.
  AcrossMachines(std::shared_ptr<Machines> machines, std::unique_ptr<MachineMeeting> meeting,
                 MachinePlan plan, const std::vector<arena::Layout>& layouts,
                 const std::vector<arena::Bucket>& buckets, std::vector<torch::Tensor> parameters);
  ~AcrossMachines() override;

  void post(int tower, std::size_t bucket, std::span<const ShardSum> mine) override;
  std::vector<char> reduce(int tower, std::span<const ShardSum> mine, double divisor,
                           std::span<GradientSlice> slices) override;
  void skip(int tower, std::span<const ShardSum> mine) override;
  void updated(int tower, std::size_t bucket) override;
  void gather(int tower) override;
  void abort() noexcept override;
  void reset() override;

 private:
  using Transfers = std::vector<std::unique_ptr<Machines::Transfer>>;
  /// By machine and parameter of each of its roots: whether there is a gradient.
  using Presence = std::vector<std::vector<std::vector<char>>>;

  /// Of this machine.
  struct PerTower {
    std::span<const ShardSum> sums;
    SliceSum sum;
  };

  /// What is exchanged of a bucket, flat: by machine, its roots one after the other.
  struct Traffic {
    std::vector<torch::Tensor> out, in;  // undefined: nothing
    std::mutex mutex;
    Transfers arriving;  // guarded by mutex, until they have
    std::size_t posts = 0;
    bool sent = false;
  };

  int local(int tower) const { return tower - first_; }
  bool others(int machine) const { return machine != machines_->rank(); }
  torch::Tensor parameters_of(std::size_t bucket, int machine) const;
  const ShardSum* sum_of(std::size_t shard) const;
  void begin();
  void send(PerTower& tower, std::size_t bucket);
  void send_rest(int tower, std::span<const ShardSum> mine);
  void await(int tower, std::size_t bucket);
  Presence trade_presence(int tower);
  void begin_gather();
  void send_updated(std::size_t bucket);
  void end_transfers() noexcept;

  // Constant after construction.
  const std::shared_ptr<Machines> machines_;
  MachineMeeting& meeting_;  // the base's
  const MachinePlan plan_;
  const std::vector<arena::Layout>& layouts_;
  const std::vector<arena::Bucket>& buckets_;
  const std::vector<torch::Tensor> parameters_;
  const int first_;                                // tower of this machine
  const std::vector<Merge> own_merges_;            // of this machine's shards
  std::vector<std::unique_ptr<Traffic>> traffic_;  // by bucket

  std::vector<PerTower> by_tower_;  // of this machine
  std::mutex mutex_;
  // Guarded by mutex_:
  bool begun_ = false;  // receives of this step are posted
  Transfers sending_;
  bool gathering_begun_ = false;
  std::vector<std::size_t> updates_;  // by bucket: towers of this machine that have updated it
  Transfers gathering_;               // none once the step is aborted: they write to the parameters
};

}  // namespace lockstep::collective
