#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "machines/connection.h"

namespace lockstep::machines {

/// A machine's connection to the hub: small all-gathers, signs of life, trouble, new groups, and
/// the keys by which a group's data connections find each other. It has a thread of its own, so
/// that a machine that computes is not taken for lost.
class Control {
 public:
  struct Group {
    std::int64_t generation = 0;
    int rank = 0;
    std::vector<std::string> names = {};  ///< by rank
  };

  /// Over a connection that has shown the secret; `address` is where others reach this machine for
  /// data. `on_trouble` is called from any thread whenever there is trouble, also again.
  Control(Socket socket, const MachinesOptions& options, std::string address,
          std::function<void()> on_trouble);

  ~Control() { end(); }
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  /// Says good-bye. Later calls throw, or do nothing.
  void end();

  /// Says hello and waits for the first group. Throws ConfigError, MachinesError.
  Group join(Clock::time_point deadline);

  // As in Machines.
  std::vector<Bytes> all_gather(std::span<const std::byte> mine);
  void abort(const std::string& why) noexcept;
  std::optional<Trouble> trouble() const;
  Group regroup();

  /// Throws MachinesError if there is trouble in the group of that generation, or it is no more.
  void require(std::int64_t generation) const;

  /// Waits a moment for news, when something broke: whether there is trouble in the group.
  bool hears_of_trouble(std::int64_t generation) const;

  /// The data connection to a machine of the group broke. Throws MachinesError, as the hub says who
  /// is lost. If both machines are there one of them has to go; `what` is why.
  [[noreturn]] void report_broken(std::int64_t generation, int rank, const std::string& what);

  /// A key of the group, seen by all its machines. get() waits; both throw MachinesError on
  /// trouble, get() a std::runtime_error at the deadline.
  void set(std::int64_t generation, const std::string& key, std::span<const std::byte> value);
  Bytes get(std::int64_t generation, const std::string& key, Clock::time_point deadline) const;
  bool has(const std::string& key) const;

  /// For tests: as Hub's.
  void vanish() { vanished_ = true; }
  void freeze() { frozen_ = true; }

 private:
  void run();
  void wait_for_news(Clock::time_point until);
  void take(const Message& message);
  void take_group(Reader reader);
  void take_gathered(Reader reader);
  void take_refusal(Reader reader);
  void hub_is_gone(const std::string& why);
  void send(Packed message);
  void wake();
  void farewell();
  bool sent_away() const;                            // with mutex_ held
  void require_locked() const;                       // with mutex_ held
  void count_first_as_lost(const std::string& why);  // with mutex_ held

  const MachinesOptions options_;
  const std::string address_;
  const std::function<void()> on_trouble_;
  Connection connection_;
  Socket bell_;  // an eventfd: wakes the thread
  std::atomic<bool> ending_ = false;
  std::atomic<bool> vanished_ = false;
  std::atomic<bool> frozen_ = false;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  // Guarded by mutex_:
  Group group_ = {.generation = -1};
  std::optional<Trouble> trouble_;
  Trouble last_;  // of the group before
  bool hub_gone_ = false;
  bool hub_left_ = false;
  bool at_work_ = false;              // the others are; this machine waits to be taken in
  std::vector<std::string> missing_;  // at the start
  std::exception_ptr refusal_;
  std::uint64_t round_ = 0;
  std::optional<std::vector<Bytes>> gathered_;
  std::map<std::string, Bytes> keys_;  // of this group

  std::jthread thread_;  // last: it uses the others
};

}  // namespace lockstep::machines
