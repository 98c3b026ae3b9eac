#include "machines/thread_machines.h"

#include <lockstep/error.h>

#include <algorithm>

#include "machines/contract.h"
#include "machines/room.h"

namespace lockstep::machines {
namespace {

class ThreadTransfer : public Machines::Transfer {
 public:
  ThreadTransfer(std::shared_ptr<Room> room, std::shared_ptr<Room::Post> post)
      : room_(std::move(room)), post_(std::move(post)) {}
  ~ThreadTransfer() override { room_->give_up(*post_); }
  ThreadTransfer(const ThreadTransfer&) = delete;
  ThreadTransfer& operator=(const ThreadTransfer&) = delete;

  void wait() override { room_->wait(*post_); }

 private:
  std::shared_ptr<Room> room_;
  std::shared_ptr<Room::Post> post_;
};

class ThreadMachines : public Machines {
 public:
  ThreadMachines(std::shared_ptr<Room> room, int number) : room_(std::move(room)), number_(number) {
    take_group();
  }
  ~ThreadMachines() override { room_->leave(number_); }
  ThreadMachines(const ThreadMachines&) = delete;
  ThreadMachines& operator=(const ThreadMachines&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(names_.size()); }
  const std::string& name(int rank) const override {
    return names_.at(static_cast<std::size_t>(rank));
  }
  std::int64_t generation() const override { return generation_; }

  std::vector<Bytes> all_gather(std::span<const std::byte> mine) override {
    return room_->all_gather(number_, mine);
  }

  std::unique_ptr<Transfer> send(int to, std::uint32_t tag,
                                 std::span<const std::byte> bytes) override {
    return transfer({.from = rank_,
                     .to = to,
                     .tag = tag,
                     .out = bytes.data(),
                     .size = bytes.size(),
                     .sends = true});
  }
  std::unique_ptr<Transfer> receive(int from, std::uint32_t tag,
                                    std::span<std::byte> bytes) override {
    return transfer(
        {.from = from, .to = rank_, .tag = tag, .in = bytes.data(), .size = bytes.size()});
  }

  void abort(const std::string& why) noexcept override { room_->abort(number_, why); }
  std::optional<Trouble> trouble() const override { return room_->trouble(number_); }
  void regroup() override {
    room_->regroup(number_);
    take_group();
  }

  void vanish() { room_->lose(number_); }

 private:
  std::unique_ptr<Transfer> transfer(Room::Post post) {
    const int other = post.from == rank_ ? post.to : post.from;
    check_transfer(*this, other, post.tag);
    post.generation = generation_;
    return std::make_unique<ThreadTransfer>(room_, room_->post(number_, std::move(post)));
  }

  void take_group() {
    const std::vector<int> numbers = room_->group(generation_);
    rank_ = static_cast<int>(std::find(numbers.begin(), numbers.end(), number_) - numbers.begin());
    names_.clear();
    for (const int number : numbers) names_.push_back(room_->name(number));
  }

  const std::shared_ptr<Room> room_;
  const int number_;

  // Written by regroup() only.
  int rank_ = 0;
  std::int64_t generation_ = 0;
  std::vector<std::string> names_;
};

}  // namespace

std::vector<std::shared_ptr<Machines>> threads(int count, std::vector<std::string> names) {
  check(count > 0, "threads() needs at least one machine");
  for (int number = static_cast<int>(names.size()); number < count; ++number)
    names.push_back("machine-" + std::to_string(number));
  names.resize(static_cast<std::size_t>(count));
  const auto room = std::make_shared<Room>(std::move(names));
  std::vector<std::shared_ptr<Machines>> all;
  for (int number = 0; number < count; ++number)
    all.push_back(std::make_shared<ThreadMachines>(room, number));
  return all;
}

void vanish(Machines& machine) {
  auto* thread = dynamic_cast<ThreadMachines*>(&machine);
  check(thread != nullptr, "vanish() is for machines that threads() made");
  thread->vanish();
}

}  // namespace lockstep::machines
