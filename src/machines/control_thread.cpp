// What Control does on its own thread.

#include <lockstep/error.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>

#include "machines/control.h"
#include "machines/hub.h"
#include "machines/words.h"

namespace lockstep::machines {

void Control::run() {
  const Packed beat = Writer(MessageKind::beat).done();
  auto next_beat = Clock::now();
  auto last = Clock::now();
  while (!ending_ && !vanished_) {
    if (frozen_) {
      std::this_thread::sleep_for(kBeat / 10);
      continue;
    }
    if (Clock::now() >= next_beat) {
      if (!connection_.has_more_to_send()) connection_.send(beat);
      next_beat = Clock::now() + kBeat;
    }
    wait_for_news(next_beat);
    connection_.flush();
    try {
      if (!connection_.read([this](const Message& message) { take(message); }))
        return hub_is_gone(kClosed);
    } catch (const BadMessage& error) {
      return hub_is_gone(error.what());
    }
    // Silence counts only while this thread listened.
    if (Clock::now() - last > 4 * kBeat) connection_.forgive(Clock::now() - last);
    last = Clock::now();
    if (Seconds(last - connection_.heard()) > options_.silence)
      return hub_is_gone(describe_silence(options_.silence));
  }
  if (!vanished_) farewell();
}

void Control::wait_for_news(Clock::time_point until) {
  const bool more = connection_.has_more_to_send();
  pollfd handles[] = {{.fd = bell_.handle(), .events = POLLIN, .revents = 0},
                      {.fd = connection_.handle(),
                       .events = static_cast<short>(more ? POLLIN | POLLOUT : POLLIN),
                       .revents = 0}};
  poll(handles, std::size(handles), milliseconds_until(until));
  std::uint64_t rings = 0;
  if (handles[0].revents != 0 && ::read(bell_.handle(), &rings, sizeof rings) < 0) return;
}

void Control::take(const Message& message) {
  Reader reader(message.body);
  switch (message.kind) {
    case MessageKind::beat:
      return;
    case MessageKind::group:
      return take_group(reader);
    case MessageKind::gathered:
      return take_gathered(reader);
    case MessageKind::refused:
      return take_refusal(reader);
    case MessageKind::wait: {
      const std::lock_guard lock(mutex_);
      at_work_ = reader.number() != 0;
      missing_ = reader.texts();
      return changed_.notify_all();
    }
    case MessageKind::trouble: {
      {
        const std::lock_guard lock(mutex_);
        if (reader.generation() != group_.generation) return;
        trouble_ = read_trouble(reader);
        changed_.notify_all();
      }
      return on_trouble_();
    }
    case MessageKind::set: {
      const std::lock_guard lock(mutex_);
      if (reader.generation() != group_.generation) return;
      const std::string key = reader.text();
      const auto value = reader.bytes();
      keys_[key] = Bytes(value.begin(), value.end());
      return changed_.notify_all();
    }
    case MessageKind::bye: {
      const std::lock_guard lock(mutex_);
      hub_left_ = true;
      return changed_.notify_all();
    }
    default:
      throw BadMessage("the first machine said what only others may say");
  }
}

void Control::take_group(Reader reader) {
  const std::lock_guard lock(mutex_);
  Group group{.generation = reader.generation()};
  const std::uint64_t size = reader.number();
  for (std::uint64_t rank = 0; rank < size; ++rank) {
    if (reader.number() == static_cast<std::uint64_t>(options_.machine))
      group.rank = static_cast<int>(rank);
    group.names.push_back(reader.text());
    reader.text();  // the address: Gloo's own messages tell it to the others
  }
  group_ = std::move(group);
  last_ = trouble_.value_or(Trouble{.why = kRegrouped});
  trouble_.reset();
  keys_.clear();
  round_ = 0;
  gathered_.reset();
  changed_.notify_all();
}

void Control::take_gathered(Reader reader) {
  const std::lock_guard lock(mutex_);
  if (reader.generation() != group_.generation || reader.number() != round_) return;
  gathered_.emplace();
  for (std::size_t rank = 0; rank < group_.names.size(); ++rank) {
    const auto bytes = reader.bytes();
    gathered_->emplace_back(bytes.begin(), bytes.end());
  }
  changed_.notify_all();
}

void Control::take_refusal(Reader reader) {
  const bool fixable = reader.number() != 0;
  const std::vector<std::string> names = reader.texts();
  const std::string why = reader.text();
  const std::lock_guard lock(mutex_);
  refusal_ = fixable ? std::make_exception_ptr(ConfigError("this machine, number " +
                                                           std::to_string(options_.machine) +
                                                           ", is refused by the first: " + why))
                     : std::make_exception_ptr(MachinesError({.lost = names, .why = why}));
  changed_.notify_all();
}

/// There is no way back: this machine can join anew.
/// Whether the others count this machine as lost.
bool Control::sent_away() const {
  if (!trouble_ || group_.names.empty()) return false;
  return std::ranges::count(trouble_->lost, group_.names[static_cast<std::size_t>(group_.rank)]) >
         0;
}

void Control::hub_is_gone(const std::string& why) {
  connection_.end_sending();
  {
    const std::lock_guard lock(mutex_);
    hub_gone_ = true;
    if (!hub_left_ && !refusal_ && !sent_away()) count_first_as_lost(why);
    changed_.notify_all();
    if (!trouble_) return;
  }
  on_trouble_();
}

/// What was said goes out; then the hub closes the connection, so that nothing is lost on its way.
void Control::farewell() {
  constexpr std::chrono::seconds kLimit{3};
  connection_.send(Writer(MessageKind::bye).done());
  const auto limit = Clock::now() + kLimit;
  bool ended = false;
  while (Clock::now() < limit) {
    if (!connection_.flush() && !std::exchange(ended, true)) connection_.end_sending();
    wait_for_news(std::min(limit, Clock::now() + kBeat));
    try {
      if (!connection_.read([](const Message&) {})) return;
    } catch (const BadMessage&) {
      return;
    }
  }
}

}  // namespace lockstep::machines
