#pragma once

// The collective of towers that each have a memory of their own: accelerators.
//
// Towers are numbered through all processes. A process has an Exchange of its own, which its own
// towers call, the local ones; meeting and transport join them to the others.

#include <c10/core/Event.h>
#include <lockstep/device.h>
#include <lockstep/exchange.h>

#include <memory>
#include <mutex>
#include <vector>

#include "collective/exchange_plan.h"
#include "collective/transport.h"

namespace lockstep::collective {

/// A bucket is exchanged as soon as all local towers have posted it: the last one enqueues the work
/// of all local ones, on communication streams, so that nobody waits on the host while backward
/// runs. Where towers are in several processes, buckets go from the last to the first.
class Exchange : public Collective {
 public:
  Exchange(std::vector<Party> parties, ExchangeShape shape, std::unique_ptr<Meeting> meeting,
           std::unique_ptr<Transport> transport);
  ~Exchange() override;

  void post(int tower, std::size_t bucket, std::span<const ShardSum> mine) override;
  std::vector<char> reduce(int tower, std::span<const ShardSum> mine, double divisor,
                           std::span<GradientSlice> slices) override;
  void skip(int tower, std::span<const ShardSum> mine) override;
  void gather(int tower) override;
  void abort() noexcept override;
  void reset() override;

 private:
  void flatten(int tower, std::size_t bucket, std::span<const ShardSum> mine);
  void enqueue_ready(std::size_t bucket);
  void enqueue_in_order();
  void post_rest(int tower, std::span<const ShardSum> mine);
  void enqueue(std::size_t bucket);
  void enqueue_sums(const std::vector<Addition>& additions,
                    const std::vector<c10::Stream>& streams);

  void join(int tower);

  // Constant after construction.
  const std::vector<Party> parties_;
  const ExchangeShape shape_;
  const std::vector<std::size_t> local_;  // towers of this process
  const std::unique_ptr<Transport> transport_;
  std::vector<c10::Stream> inside_, across_;  // by tower; of others than local_ there are none
  ExchangePlan plan_;

  // Of the step at work, each tower its own.
  std::vector<char> fresh_;  // nothing posted yet

  std::mutex mutex_;  // guards what is below, and enqueuing
  std::vector<std::vector<std::unique_ptr<c10::Event>>> ready_;  // by tower and bucket: posted
  std::vector<std::size_t> posts_;                               // by bucket
  std::size_t enqueued_ = 0;  // buckets, where there are several processes
  std::size_t gathering_ = 0;
};

}  // namespace lockstep::collective
