#include "machines/hub.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "machines/words.h"

namespace lockstep::machines {
namespace {

/// To show the secret and to say hello.
constexpr std::chrono::seconds kPatience{5};

/// Connections that have not said hello.
constexpr std::size_t kMostStrangers = 256;

}  // namespace

Hub::Hub(const MachinesOptions& options)
    : options_(options),
      listener_(listen_on(parse_endpoint(options.first))),
      address_(local_address(listener_)),
      keeper_(options.machines, options.transport,
              {.tell =
                   [this](Keeper::Line line, const Packed& message) {
                     if (Caller* caller = caller_of(line)) caller->connection.send(message);
                   },
               .hang_up =
                   [this](Keeper::Line line) {
                     if (Caller* caller = caller_of(line)) caller->leaving = true;
                   }}) {
  auto [own, hubs] = connected_pair();
  own_end_ = std::move(own);
  add(std::move(hubs), "the first machine", true);
  thread_ = std::jthread([this] { run(); });
}

Hub::~Hub() {
  ending_ = true;
  thread_.join();
}

std::vector<std::string> Hub::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_;
}

void Hub::run() {
  auto next_beat = Clock::now();
  auto last = Clock::now();
  while (!ending_ && !vanished_) {
    if (frozen_) {
      std::this_thread::sleep_for(kBeat / 10);
      continue;
    }
    if (Clock::now() >= next_beat) {
      beat();
      next_beat = Clock::now() + kBeat;
    }
    wait_for_news(std::min(next_beat, Clock::now() + kBeat));
    go_round();
    judge_silence(Clock::now() - last);
    last = Clock::now();
    bury_the_dead();
    if (!start_is_over_ && Clock::now() - begin_ > ticks(options_.start)) {
      start_is_over_ = true;
      keeper_.give_up_start();
    }
    const std::lock_guard lock(mutex_);
    waiting_ = keeper_.waiting();
  }
  if (!vanished_) farewell();
  callers_.clear();
  listener_.close();
}

/// Reads and writes wherever that is possible.
void Hub::go_round() {
  let_in();
  for (Caller& caller : callers_) {
    if (caller.dead) continue;
    caller.challenge ? read_answer(caller) : read(caller);
    if (caller.connection.has_more_to_send()) caller.connection.flush();
    if (caller.leaving && !caller.connection.has_more_to_send()) caller.dead = true;
  }
}

void Hub::wait_for_news(Clock::time_point until) {
  std::vector<pollfd> handles = {{.fd = listener_.handle(), .events = POLLIN, .revents = 0}};
  for (const Caller& caller : callers_) {
    const bool more = caller.connection.has_more_to_send();
    handles.push_back({.fd = caller.connection.handle(),
                       .events = static_cast<short>(more ? POLLIN | POLLOUT : POLLIN),
                       .revents = 0});
  }
  poll(handles.data(), handles.size(), milliseconds_until(until));
}

void Hub::let_in() {
  while (Socket socket = accept_from(listener_)) {
    const auto strangers =
        std::count_if(callers_.begin(), callers_.end(), [](const Caller& c) { return !c.known; });
    if (static_cast<std::size_t>(strangers) >= kMostStrangers) continue;
    std::string where = peer_address(socket);
    add(std::move(socket), std::move(where), false);
  }
}

void Hub::add(Socket socket, std::string where, bool trusted) {
  Caller& caller = callers_.emplace_back(next_line_++, std::move(where), std::move(socket));
  if (trusted) return;
  caller.challenge.emplace(options_.secret);
  const auto text = caller.challenge->text();
  ::send(caller.connection.handle(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// Nothing that a stranger says is interpreted but his proof.
void Hub::read_answer(Caller& caller) {
  Bytes more(kAnswerBytes - caller.said.size());
  const ssize_t count = recv(caller.connection.handle(), more.data(), more.size(), MSG_DONTWAIT);
  if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) caller.dead = true;
  if (count <= 0) return;
  caller.said.insert(caller.said.end(), more.begin(), more.begin() + count);
  const Challenge::Finding finding = caller.challenge->judge(caller.said);
  if (finding == Challenge::Finding::open) return;
  if (finding == Challenge::Finding::stranger) {
    keeper_.turned_away("somebody at " + caller.where + " who is no Lockstep machine");
    caller.dead = true;
    return;
  }
  const auto verdict = caller.challenge->verdict(caller.said);
  ::send(caller.connection.handle(), verdict.data(), verdict.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (finding == Challenge::Finding::good) {
    caller.challenge.reset();
  } else {
    keeper_.turned_away("a machine at " + caller.where +
                        ": it has another secret; set LOCKSTEP_SECRET to the same on all machines");
    caller.dead = true;
  }
}

void Hub::read(Caller& caller) {
  const auto take = [&](const Message& message) {
    if (caller.leaving) return;
    caller.known = caller.known || message.kind == MessageKind::hello;
    keeper_.take(caller.line, caller.where, message);
  };
  try {
    if (!caller.connection.read(take) && !caller.dead) lose(caller, kClosed);
  } catch (const BadMessage& error) {
    lose(caller, error.what());
  }
}

/// Silence counts only while this thread listened: `away` is how long its last round took.
void Hub::judge_silence(Clock::duration away) {
  const auto now = Clock::now();
  for (Caller& caller : callers_) {
    if (caller.dead) continue;
    if (away > 4 * kBeat) caller.connection.forgive(away);
    if (now - caller.connection.heard() > ticks(options_.silence))
      lose(caller, describe_silence(options_.silence));
    else if (!caller.known && now - caller.since > kPatience)
      caller.dead = true;
  }
}

void Hub::lose(Caller& caller, std::string why) {
  caller.dead = true;
  caller.why = std::move(why);
}

/// Last, for the keeper may speak to those who live.
void Hub::bury_the_dead() {
  for (auto caller = callers_.begin(); caller != callers_.end();) {
    if (!caller->dead) {
      ++caller;
      continue;
    }
    const Caller& gone = *caller;
    keeper_.closed(gone.line, gone.why);
    caller = callers_.erase(caller);
  }
}

void Hub::beat() {
  static const Packed kMessage = Writer(MessageKind::beat).done();
  for (Caller& caller : callers_)
    if (!caller.challenge && !caller.dead && !caller.connection.has_more_to_send())
      caller.connection.send(kMessage);
}

/// All hear the end of what was said to them. Then the connections are closed from the other side,
/// so that nothing on its way is lost.
void Hub::farewell() {
  listener_.close();
  keeper_.leave();
  const auto limit = Clock::now() + ticks(options_.silence);
  std::erase_if(callers_, [](const Caller& caller) { return caller.dead || !caller.known; });
  std::vector<Keeper::Line> ended;
  while (!callers_.empty() && Clock::now() < limit) {
    for (Caller& caller : callers_)
      if (!caller.connection.has_more_to_send() &&
          std::find(ended.begin(), ended.end(), caller.line) == ended.end()) {
        caller.connection.end_sending();
        ended.push_back(caller.line);
      }
    wait_for_news(std::min(limit, Clock::now() + kBeat));
    for (Caller& caller : callers_) {
      caller.connection.flush();
      try {
        caller.dead = !caller.connection.read([](const Message&) {});
      } catch (const BadMessage&) {
        caller.dead = true;
      }
    }
    std::erase_if(callers_, [](const Caller& caller) { return caller.dead; });
  }
}

Hub::Caller* Hub::caller_of(Keeper::Line line) {
  const auto found = std::find_if(callers_.begin(), callers_.end(), [&](const Caller& caller) {
    return caller.line == line && !caller.dead;
  });
  return found == callers_.end() ? nullptr : &*found;
}

}  // namespace lockstep::machines
