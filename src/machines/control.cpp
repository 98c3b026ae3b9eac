#include "machines/control.h"

#include <lockstep/error.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "machines/hub.h"
#include "machines/words.h"

namespace lockstep::machines {
namespace {

/// For the hub to find out why a data connection broke: it hears of a dead process at once.
constexpr std::chrono::seconds kVerdict{2};

std::uint64_t unsigned_of(std::int64_t generation) {
  return static_cast<std::uint64_t>(generation);
}

}  // namespace

Control::Control(Socket socket, const MachinesOptions& options, std::string address,
                 std::function<void()> on_trouble)
    : options_(options),
      address_(std::move(address)),
      on_trouble_(std::move(on_trouble)),
      connection_(std::move(socket)),
      bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!bell_) throw IoError("eventfd", "open", errno);
  thread_ = std::jthread([this] { run(); });
}

void Control::end() {
  ending_ = true;
  wake();
  if (thread_.joinable()) thread_.join();
  const std::lock_guard lock(mutex_);
  if (!trouble_ && group_.generation >= 0) trouble_ = Trouble{.why = kEnded};
}

void Control::wake() {
  const std::uint64_t one = 1;
  if (write(bell_.handle(), &one, sizeof one) < 0) return;  // it rings already
}

void Control::send(Packed message) {
  if (connection_.send(std::move(message))) wake();
}

Control::Group Control::join(Clock::time_point deadline) {
  send(Writer(MessageKind::hello)
           .number(kProtocol)
           .number(static_cast<std::uint64_t>(options_.machine))
           .number(static_cast<std::uint64_t>(options_.machines))
           .text(options_.name)
           .text(address_)
           .number(static_cast<std::uint64_t>(options_.transport))
           .done());
  std::unique_lock lock(mutex_);
  // The first machine's time may end a little later than this one's; it knows more.
  const auto limit = deadline + kVerdict;
  const auto over = [&] { return group_.generation >= 0 || refusal_ || hub_gone_; };
  while (!over()) {
    if (at_work_)
      changed_.wait(lock);
    else if (changed_.wait_until(lock, limit) == std::cv_status::timeout && !over() && !at_work_)
      throw MachinesError({.lost = missing_, .why = kNotThere});
  }
  if (refusal_) std::rethrow_exception(refusal_);
  if (group_.generation < 0) require_locked();
  return group_;
}

std::vector<Bytes> Control::all_gather(std::span<const std::byte> mine) {
  std::unique_lock lock(mutex_);
  require_locked();
  if (mine.size() > kMostGathered)
    throw std::length_error("an all-gather of more than 1 GiB: use send and receive");
  ++round_;
  gathered_.reset();
  const std::int64_t generation = group_.generation;
  const std::uint64_t round = round_;
  lock.unlock();
  send(
      Writer(MessageKind::gather).number(unsigned_of(generation)).number(round).bytes(mine).done());
  lock.lock();
  changed_.wait(lock, [&] { return gathered_ || trouble_ || hub_left_; });
  if (!gathered_ && !trouble_) count_first_as_lost(kHasLeft);
  if (!gathered_) require_locked();
  return std::move(*std::exchange(gathered_, std::nullopt));
}

void Control::abort(const std::string& why) noexcept {
  try {
    std::unique_lock lock(mutex_);
    if (trouble_ || group_.generation < 0) return;
    trouble_ = Trouble{.failed = group_.names[static_cast<std::size_t>(group_.rank)], .why = why};
    const std::int64_t generation = group_.generation;
    changed_.notify_all();
    lock.unlock();
    send(Writer(MessageKind::abort).number(unsigned_of(generation)).text(why).done());
    on_trouble_();
  } catch (const std::exception&) {
    // Without memory for it the others hear of it when this machine ends.
    vanished_ = true;
  }
}

std::optional<Trouble> Control::trouble() const {
  const std::lock_guard lock(mutex_);
  return trouble_;
}

void Control::require_locked() const {
  if (trouble_) throw MachinesError(*trouble_);
}

void Control::require(std::int64_t generation) const {
  const std::lock_guard lock(mutex_);
  if (group_.generation != generation) throw MachinesError(last_);
  require_locked();
}

Control::Group Control::regroup() {
  std::unique_lock lock(mutex_);
  const std::int64_t before = group_.generation;
  if (hub_left_ && !trouble_) count_first_as_lost(kHasLeft);
  if (!hub_gone_ && !hub_left_) {
    lock.unlock();
    send(Writer(MessageKind::regroup).number(unsigned_of(before)).done());
    lock.lock();
  }
  changed_.wait(lock, [&] { return group_.generation > before || hub_gone_ || hub_left_; });
  if (group_.generation > before) return group_;
  if (hub_left_) count_first_as_lost(kHasLeft);
  throw MachinesError(*trouble_);
}

void Control::report_broken(std::int64_t generation, int rank, const std::string& what) {
  send(Writer(MessageKind::missed)
           .number(unsigned_of(generation))
           .number(static_cast<std::uint64_t>(rank))
           .done());
  if (!hears_of_trouble(generation)) {
    send(Writer(MessageKind::apart)
             .number(unsigned_of(generation))
             .number(static_cast<std::uint64_t>(rank))
             .text(what)
             .done());
    if (!hears_of_trouble(generation)) abort("a connection for data broke: " + what);
  }
  require(generation);
  throw MachinesError(last_);
}

bool Control::hears_of_trouble(std::int64_t generation) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kVerdict,
                           [&] { return trouble_ || group_.generation != generation; });
}

void Control::set(std::int64_t generation, const std::string& key,
                  std::span<const std::byte> value) {
  require(generation);
  send(Writer(MessageKind::set).number(unsigned_of(generation)).text(key).bytes(value).done());
}

Bytes Control::get(std::int64_t generation, const std::string& key,
                   Clock::time_point deadline) const {
  std::unique_lock lock(mutex_);
  const auto over = [&] {
    return keys_.contains(key) || trouble_ || hub_left_ || group_.generation != generation;
  };
  if (!changed_.wait_until(lock, deadline, over))
    throw std::runtime_error("another machine has not said where it can be reached");
  if (group_.generation != generation) throw MachinesError(last_);
  require_locked();
  if (!keys_.contains(key)) throw std::runtime_error("the first machine has ended its work");
  return keys_.at(key);
}

bool Control::has(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  return keys_.contains(key);
}

void Control::count_first_as_lost(const std::string& why) {
  const std::string first = group_.names.empty() ? "number 0" : group_.names.front();
  trouble_ = Trouble{.lost = {first}, .why = why};
  changed_.notify_all();
}

}  // namespace lockstep::machines
