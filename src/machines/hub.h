#pragma once

#include <atomic>
#include <list>
#include <mutex>
#include <thread>

#include "machines/connection.h"
#include "machines/keeper.h"
#include "machines/proof.h"

namespace lockstep::machines {

/// How often each side gives a sign of life.
inline constexpr std::chrono::milliseconds kBeat{250};

/// What the first machine does for all: it listens, lets in who knows the secret, and carries what
/// they say to the Keeper and back. It has a thread of its own, so that a machine that computes
/// does not keep the others waiting.
class Hub {
 public:
  /// Listens at options.first.
  explicit Hub(const MachinesOptions& options);

  /// Says good-bye, and ends when all have heard what was said to them, or are silent.
  ~Hub();
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  /// The end of a connection for the first machine itself. Once.
  Socket own_end() { return std::move(own_end_); }

  const std::string& address() const { return address_; }

  /// Machines that wait for the next group. Any thread.
  std::vector<std::string> waiting() const;

  /// For tests: to end as a process does that is killed.
  void vanish() { vanished_ = true; }
  /// For tests: from now on nothing is read or said, as by a process that is stopped.
  void freeze() { frozen_ = true; }

 private:
  /// Somebody who has connected.
  struct Caller {
    Caller(Keeper::Line number, std::string from, Socket socket)
        : line(number), where(std::move(from)), connection(std::move(socket)) {}

    const Keeper::Line line;
    const std::string where;
    Connection connection;
    Clock::time_point since = Clock::now();
    std::optional<Challenge> challenge = {};  // until the secret is shown
    Bytes said = {};                          // of the answer to it
    bool known = false;                       // has said hello
    bool leaving = false;                     // hangs up when all is sent
    bool dead = false;
    std::string why = "";
  };

  void run();
  void go_round();
  void wait_for_news(Clock::time_point until);
  void let_in();
  void add(Socket socket, std::string where, bool trusted);
  void read(Caller& caller);
  void read_answer(Caller& caller);
  void judge_silence(Clock::duration away);
  void bury_the_dead();
  void beat();
  void farewell();
  void lose(Caller& caller, std::string why);
  Caller* caller_of(Keeper::Line line);

  const MachinesOptions options_;
  Socket listener_;
  std::string address_;
  Socket own_end_;
  std::atomic<bool> ending_ = false;
  std::atomic<bool> vanished_ = false;
  std::atomic<bool> frozen_ = false;

  mutable std::mutex mutex_;
  std::vector<std::string> waiting_;  // guarded by mutex_

  // Touched by the hub's thread.
  Keeper keeper_;
  std::list<Caller> callers_;
  Keeper::Line next_line_ = 0;
  const Clock::time_point begin_ = Clock::now();
  bool start_is_over_ = false;

  std::jthread thread_;  // last: it uses the others
};

}  // namespace lockstep::machines
