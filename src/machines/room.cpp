#include "machines/room.h"

#include <lockstep/error.h>

#include <algorithm>
#include <cstring>

#include "machines/words.h"

namespace lockstep::machines {

Room::Room(std::vector<std::string> names)
    : names_(std::move(names)), presence_(names_.size(), Presence::here), asks_(names_.size(), 0) {
  for (std::size_t number = 0; number < names_.size(); ++number)
    group_.push_back(static_cast<int>(number));
  round_->given.resize(group_.size());
}

std::vector<int> Room::group(std::int64_t& generation) const {
  const std::lock_guard lock(mutex_);
  generation = generation_;
  return group_;
}

std::optional<Trouble> Room::trouble_of(int number) const {
  if (presence_[static_cast<std::size_t>(number)] != Presence::lost) return trouble_;
  return Trouble{.lost = {names_.front()}, .why = kCutOff};
}

std::optional<Trouble> Room::trouble(int number) const {
  const std::lock_guard lock(mutex_);
  return trouble_of(number);
}

void Room::require(int number) const {
  if (std::optional<Trouble> trouble = trouble_of(number)) throw MachinesError(std::move(*trouble));
}

std::vector<Bytes> Room::all_gather(int number, std::span<const std::byte> mine) {
  std::unique_lock lock(mutex_);
  require(number);
  const std::shared_ptr<Round> round = round_;
  const auto rank = std::find(group_.begin(), group_.end(), number) - group_.begin();
  round->given[static_cast<std::size_t>(rank)] = Bytes(mine.begin(), mine.end());
  if (++round->count == group_.size()) {
    round->done = true;
    round_ = std::make_shared<Round>();
    round_->given.resize(group_.size());
    changed_.notify_all();
  } else {
    blame_who_left();
    changed_.wait(lock, [&] { return round->done || trouble_of(number); });
    if (!round->done) require(number);
  }
  lock.unlock();
  std::vector<Bytes> all;
  for (const std::optional<Bytes>& bytes : round->given) all.push_back(*bytes);
  return all;
}

std::shared_ptr<Room::Post> Room::post(int number, Post side) {
  const std::lock_guard lock(mutex_);
  require(number);
  const auto mine = std::make_shared<Post>(std::move(side));
  mine->owner = number;
  if (mine->size == 0) {
    mine->done = true;
    return mine;
  }
  const auto fits = [&](const std::shared_ptr<Post>& other) {
    return other->from == mine->from && other->to == mine->to && other->tag == mine->tag &&
           other->sends != mine->sends;
  };
  const auto other = std::find_if(open_.begin(), open_.end(), fits);
  if (other == open_.end()) {
    open_.push_back(mine);
    blame_who_left();
    return mine;
  }
  check((*other)->size == mine->size, "the two sides of a transfer name different lengths");
  const Post& sender = mine->sends ? *mine : **other;
  const Post& receiver = mine->sends ? **other : *mine;
  std::memcpy(receiver.in, sender.out, mine->size);
  mine->done = (*other)->done = true;
  open_.erase(other);
  changed_.notify_all();
  return mine;
}

void Room::wait(const Post& side) {
  std::unique_lock lock(mutex_);
  const auto over = [&] { return generation_ != side.generation; };
  changed_.wait(lock, [&] { return side.done || over() || trouble_of(side.owner); });
  if (over()) throw MachinesError(last_);
  require(side.owner);
}

void Room::give_up(const Post& side) {
  const std::lock_guard lock(mutex_);
  open_.remove_if([&](const std::shared_ptr<Post>& other) { return other.get() == &side; });
}

void Room::abort(int number, const std::string& why) noexcept {
  const std::lock_guard lock(mutex_);
  if (presence(number) != Presence::here || trouble_) return;
  trouble_ = Trouble{.failed = names_[static_cast<std::size_t>(number)], .why = why};
  end_calls();
}

/// What is open is forgotten, so that nobody's memory is written any more.
void Room::end_calls() {
  open_.clear();
  changed_.notify_all();
}

void Room::regroup(int number) {
  std::unique_lock lock(mutex_);
  const std::int64_t target = generation_ + 1;
  asks_[static_cast<std::size_t>(number)] = 1;
  const auto cut_off = [&] {
    return presence(number) == Presence::lost || presence(0) != Presence::here;
  };
  if (presence(0) == Presence::left && !trouble_) count_as_lost(0, kHasLeft);
  make_group_when_all_ask();
  changed_.wait(lock, [&] { return generation_ >= target || cut_off(); });
  if (generation_ < target) require(number);
}

void Room::make_group_when_all_ask() {
  if (presence(0) != Presence::here) return;
  std::vector<int> next;
  for (const int number : group_) {
    if (presence(number) != Presence::here) continue;
    if (!asks_[static_cast<std::size_t>(number)]) return;
    next.push_back(number);
  }
  group_ = std::move(next);
  ++generation_;
  last_ = trouble_.value_or(Trouble{.why = kRegrouped});
  trouble_.reset();
  std::fill(asks_.begin(), asks_.end(), 0);
  round_ = std::make_shared<Round>();
  round_->given.resize(group_.size());
  end_calls();
}

void Room::count_as_lost(int number, const std::string& why) {
  presence(number) = Presence::lost;
  if (!trouble_) trouble_ = Trouble{.why = why};
  trouble_->lost.push_back(names_[static_cast<std::size_t>(number)]);
  end_calls();
}

void Room::lose(int number) {
  const std::lock_guard lock(mutex_);
  if (presence(number) != Presence::here) return;
  count_as_lost(number, kClosed);
  make_group_when_all_ask();
}

void Room::leave(int number) {
  const std::lock_guard lock(mutex_);
  if (presence(number) != Presence::here) return;
  presence(number) = Presence::left;
  blame_who_left();
  make_group_when_all_ask();
  changed_.notify_all();
}

/// One that has left is lost to those who still wait for it.
void Room::blame_who_left() {
  if (trouble_) return;
  for (std::size_t rank = 0; rank < group_.size(); ++rank) {
    if (presence(group_[rank]) != Presence::left) continue;
    const bool gather = round_->count > 0 && !round_->given[rank];
    const auto needs = [&](const std::shared_ptr<Post>& post) {
      return static_cast<std::size_t>(post->sends ? post->to : post->from) == rank;
    };
    if (gather || std::any_of(open_.begin(), open_.end(), needs)) {
      count_as_lost(group_[rank], kHasLeft);
      return;
    }
  }
}

}  // namespace lockstep::machines
