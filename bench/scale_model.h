#pragma once

// How long a step takes on many machines of several accelerators: the plan that Exchange carries
// out, message by message, over links of given speeds. Nothing is computed; of what a device does
// by itself, the times are taken from a simulated one (scale_profile.h).

#include <map>
#include <vector>

#include "collective/exchange_plan.h"

namespace bench {

struct Link {
  double bytes_per_second = 12e9;  // each way
  double latency = 10e-6;          // seconds
};

/// Which messages of one call of Transport::move are under way together.
enum class Transfers {
  one_by_one,  // a device takes in one after the other, as simulated devices do
  together,    // all, and only the bytes of each device count, as in a group of NCCL's
};

/// Devices 0 to `group` - 1 are the first machine, and so on.
struct Cluster {
  int group = 8;
  Link inside = {}, across = {};  // of each device: between those of a machine, and machines
  double memory_bytes_per_second = 500e9;
  Transfers transfers = Transfers::one_by_one;
};

/// What one device does in a step: seconds, alike on all of them.
struct DeviceTimes {
  std::vector<double> ready;  // by bucket, since the step's beginning: its gradients are complete
  double computed = 0;        // since then: the host has the loss
  double reduced = 0;         // from the sums to the host's knowing the norm
  double updated = 0;         // the update of its slices
};

struct StepTime {
  double sums = 0;    // since the step's beginning: all owners have their sums
  double gather = 0;  // seconds of the parameters' way to all
  double total = 0;
};

/// Without what the hosts of machines say to each other. `plan` is of all towers, as if they were
/// in one process, by groups of the cluster's; of its tensors only the sizes matter.
StepTime step_time(const lockstep::collective::ExchangePlan& plan, const Cluster& cluster,
                   const DeviceTimes& device);

/// The plan for `towers` with a shard each, without memory.
lockstep::collective::ExchangePlan plan_of(const std::vector<lockstep::arena::Layout>& layouts,
                                           const std::vector<lockstep::arena::Bucket>& buckets,
                                           int towers, int group, int packs = 1);

}  // namespace bench
