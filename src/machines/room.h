#pragma once

#include <lockstep/machines.h>

#include <condition_variable>
#include <list>
#include <mutex>

namespace lockstep::machines {

/// Where the machines of threads() meet: one mutex, and letter boxes. A machine is named by its
/// number, which stays; ranks are those of the group of the moment. The first has number 0.
class Room {
 public:
  /// One side of a transfer, from rank to rank.
  struct Post {
    int from = 0;
    int to = 0;
    std::uint32_t tag = 0;
    const std::byte* out = nullptr;  ///< of the side that sends
    std::byte* in = nullptr;         ///< of the side that receives
    std::size_t size = 0;
    std::int64_t generation = 0;
    int owner = 0;
    bool sends = false;
    bool done = false;
  };

  explicit Room(std::vector<std::string> names);

  const std::string& name(int number) const { return names_[static_cast<std::size_t>(number)]; }

  /// The numbers of those at work, by rank, and the generation.
  std::vector<int> group(std::int64_t& generation) const;

  std::vector<Bytes> all_gather(int number, std::span<const std::byte> mine);
  std::shared_ptr<Post> post(int number, Post side);
  void wait(const Post& side);
  void give_up(const Post& side);
  void abort(int number, const std::string& why) noexcept;
  std::optional<Trouble> trouble(int number) const;
  void regroup(int number);
  void lose(int number);
  void leave(int number);

 private:
  enum class Presence { here, lost, left };
  struct Round {
    std::vector<std::optional<Bytes>> given;  // by rank
    std::size_t count = 0;
    bool done = false;
  };

  // All of these: with mutex_ held.
  Presence& presence(int number) { return presence_[static_cast<std::size_t>(number)]; }
  std::optional<Trouble> trouble_of(int number) const;
  void require(int number) const;
  void end_calls();
  void count_as_lost(int number, const std::string& why);
  void blame_who_left();
  void make_group_when_all_ask();

  const std::vector<std::string> names_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_; by number:
  std::vector<Presence> presence_;
  std::vector<char> asks_;  // for a new group
  std::optional<Trouble> trouble_;
  Trouble last_;  // of the group before
  std::int64_t generation_ = 0;
  std::vector<int> group_;  // numbers by rank
  std::shared_ptr<Round> round_ = std::make_shared<Round>();
  std::list<std::shared_ptr<Post>> open_;  // in the order in which they came
};

}  // namespace lockstep::machines
