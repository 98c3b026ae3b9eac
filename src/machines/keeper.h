#pragma once

#include <functional>
#include <map>

#include "machines/message.h"

namespace lockstep::machines {

/// Keeps the group, on the first machine: who is in it, what it has gathered, what ended its calls.
/// Knows lines (connections that have shown the secret) by number, and no sockets. One thread.
class Keeper {
 public:
  using Line = int;

  struct Lines {
    std::function<void(Line, const Packed&)> tell;
    std::function<void(Line)> hang_up;  ///< after what was told has gone out
  };

  Keeper(int machines, MachineTransport transport, Lines lines)
      : machines_(machines), transport_(transport), lines_(std::move(lines)) {}

  /// `where` is the address that the line comes from, for people. Throws BadMessage.
  void take(Line line, const std::string& where, const Message& message);

  /// The line is dead. Nothing more may be said to it.
  void closed(Line line, const std::string& why);

  /// Somebody was turned away: said when machines are missing at the start.
  void turned_away(const std::string& whom_and_why);

  bool begun() const { return generation_ >= 0; }

  /// The time for the start is over: tells all who is missing, unless all came.
  void give_up_start();

  /// The first machine ends its work: says good-bye to all.
  void leave();

  /// Those who wait for the next group to be made.
  std::vector<std::string> waiting() const;

 private:
  enum class Presence { here, lost, left };
  struct Member {
    int number = 0;
    std::string name;   // for people, unlike all others
    std::string asked;  // the name that it asked for
    std::string address;
    Line line = -1;
    Presence presence = Presence::here;
    bool asks = false;                // for a new group
    std::optional<Bytes> given = {};  // in this round
  };

  void hello(Line line, const std::string& where, Reader reader);
  std::string objection(int number, std::uint64_t machines, MachineTransport transport) const;
  void tell_who_is_missing();
  std::vector<std::string> missing() const;
  void make_group_when_all_ask();
  void make_group(std::vector<Member> members);
  Packed describe_group() const;
  void gather(Member& member, Reader reader);
  void abort(const Member& member, const std::string& why);
  void part(Member& member, std::uint64_t rank, const std::string& why);
  void lose(Member& member, const std::string& why);
  void leave(Member& member);
  void blame_who_left();
  void tell_all(const Packed& message);
  Member* member_of(Line line);

  const int machines_;
  const MachineTransport transport_;
  const Lines lines_;
  std::int64_t generation_ = -1;   // -1: before the first group
  std::vector<Member> group_;      // by rank
  std::map<int, Member> waiting_;  // by number
  std::optional<Trouble> trouble_;
  std::vector<std::string> turned_away_;  // at the start
};

}  // namespace lockstep::machines
