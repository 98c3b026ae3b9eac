#include "machines/keeper.h"

#include <algorithm>
#include <set>

#include "machines/words.h"

namespace lockstep::machines {
namespace {

constexpr std::size_t kMostTurnedAway = 8;

std::string other_protocol(std::uint64_t protocol) {
  return "it speaks version " + std::to_string(protocol) + " of the protocol, the first machine " +
         std::to_string(kProtocol) + ": use the same version of Lockstep on all machines";
}

/// Names for people: those that several asked for get their machine's number added.
template <class Members>
void name_apart(Members& members) {
  std::set<std::string> taken;
  for (auto& member : members) {
    const auto alike = std::count_if(members.begin(), members.end(), [&](const auto& other) {
      return other.asked == member.asked;
    });
    member.name = member.asked;
    if (alike > 1) member.name += "-" + std::to_string(member.number);
    while (!taken.insert(member.name).second) member.name += "-" + std::to_string(member.number);
  }
}

}  // namespace

void Keeper::take(Line line, const std::string& where, const Message& message) {
  Reader reader(message.body);
  if (message.kind == MessageKind::beat) return;
  if (message.kind == MessageKind::hello) return hello(line, where, reader);
  Member* member = member_of(line);
  if (message.kind == MessageKind::bye) {
    if (member) leave(*member);
    std::erase_if(waiting_, [&](const auto& entry) { return entry.second.line == line; });
    return lines_.hang_up(line);
  }
  if (!member) throw BadMessage("a machine spoke that is in no group");
  if (reader.generation() != generation_) return;  // of a group that is no more
  switch (message.kind) {
    case MessageKind::gather:
      return gather(*member, reader);
    case MessageKind::abort:
      return abort(*member, reader.text());
    case MessageKind::missed: {
      const std::uint64_t rank = reader.number();
      if (rank < group_.size() && group_[rank].presence == Presence::left && !trouble_)
        lose(group_[rank], kHasLeft);
      return;
    }
    case MessageKind::apart: {
      const std::uint64_t rank = reader.number();
      return part(*member, rank, reader.text());
    }
    case MessageKind::regroup:
      member->asks = true;
      return make_group_when_all_ask();
    case MessageKind::set: {
      const std::string key = reader.text();
      return tell_all(Writer(MessageKind::set)
                          .number(static_cast<std::uint64_t>(generation_))
                          .text(key)
                          .bytes(reader.bytes())
                          .done());
    }
    default:
      throw BadMessage("a machine said what only the first may say");
  }
}

void Keeper::hello(Line line, const std::string& where, Reader reader) {
  const std::uint64_t protocol = reader.number();
  Member member;
  const std::uint64_t number = reader.number(), machines = reader.number();
  member.number = static_cast<int>(std::min<std::uint64_t>(number, 1U << 30U));
  member.asked = member.name = reader.text();
  member.address = reader.text();
  member.line = line;
  const std::string problem =
      protocol != kProtocol
          ? other_protocol(protocol)
          : objection(member.number, machines, static_cast<MachineTransport>(reader.number()));
  if (!problem.empty()) {
    turned_away(member.name + " at " + where + ": " + problem);
    lines_.tell(line, Writer(MessageKind::refused).number(1).texts({}).text(problem).done());
    return lines_.hang_up(line);
  }
  waiting_[member.number] = std::move(member);
  if (!begun() && static_cast<int>(waiting_.size()) == machines_)
    make_group({});
  else
    tell_who_is_missing();
}

/// Why a machine cannot be taken in; empty: it can.
std::string Keeper::objection(int number, std::uint64_t machines,
                              MachineTransport transport) const {
  if (machines != static_cast<std::uint64_t>(machines_))
    return "it was told of " + std::to_string(machines) + " machines, the first of " +
           std::to_string(machines_) + ": start all with the same number";
  if (number >= machines_)
    return "there is no machine " + std::to_string(number) + " among " + std::to_string(machines_) +
           ": they are numbered from 0";
  if (transport != transport_)
    return "it was told of another transport than the first: give --transport to all machines, or "
           "to none";
  const Member* other = nullptr;
  for (const Member& member : group_)
    if (member.number == number && member.presence == Presence::here) other = &member;
  if (const auto found = waiting_.find(number); found != waiting_.end()) other = &found->second;
  if (other)
    return other->name + " is machine " + std::to_string(number) +
           " already: give each machine its own number";
  return "";
}

std::vector<std::string> Keeper::missing() const {
  std::vector<std::string> names;
  for (int number = 0; number < machines_; ++number)
    if (!waiting_.contains(number)) names.push_back("number " + std::to_string(number));
  return names;
}

void Keeper::tell_who_is_missing() {
  const Packed message = Writer(MessageKind::wait)
                             .number(begun() ? 1 : 0)
                             .texts(begun() ? std::vector<std::string>{} : missing())
                             .done();
  for (const auto& [number, member] : waiting_) lines_.tell(member.line, message);
}

void Keeper::turned_away(const std::string& whom_and_why) {
  if (!begun() && turned_away_.size() < kMostTurnedAway) turned_away_.push_back(whom_and_why);
}

void Keeper::give_up_start() {
  if (begun()) return;
  std::string why = kNotThere;
  for (const std::string& each : turned_away_) why += "; turned away was " + each;
  const Packed message = Writer(MessageKind::refused).number(0).texts(missing()).text(why).done();
  for (const auto& [number, member] : waiting_) {
    lines_.tell(member.line, message);
    lines_.hang_up(member.line);
  }
  waiting_.clear();
}

std::vector<std::string> Keeper::waiting() const {
  std::vector<std::string> names;
  if (begun())
    for (const auto& [number, member] : waiting_) names.push_back(member.name);
  return names;
}

void Keeper::make_group_when_all_ask() {
  std::vector<Member> members;
  for (const Member& member : group_) {
    if (member.presence != Presence::here) continue;
    if (!member.asks) return;
    members.push_back(member);
  }
  make_group(std::move(members));
}

/// Of these and of all who wait.
void Keeper::make_group(std::vector<Member> members) {
  for (auto& [number, member] : waiting_) members.push_back(std::move(member));
  waiting_.clear();
  std::sort(members.begin(), members.end(),
            [](const Member& a, const Member& b) { return a.number < b.number; });
  for (Member& member : members) {
    member.asks = false;
    member.given.reset();
  }
  name_apart(members);
  group_ = std::move(members);
  trouble_.reset();
  ++generation_;
  tell_all(describe_group());
}

Packed Keeper::describe_group() const {
  Writer writer(MessageKind::group);
  writer.number(static_cast<std::uint64_t>(generation_)).number(group_.size());
  for (const Member& member : group_)
    writer.number(static_cast<std::uint64_t>(member.number)).text(member.name).text(member.address);
  return writer.done();
}

void Keeper::gather(Member& member, Reader reader) {
  if (trouble_) return;
  const std::uint64_t round = reader.number();
  const auto bytes = reader.bytes();
  member.given = Bytes(bytes.begin(), bytes.end());
  std::size_t sum = 0;
  for (const Member& each : group_) sum += each.given ? each.given->size() : 0;
  if (sum > kMostGathered)
    return abort(member, "an all-gather of more than 1 GiB was asked for: use send and receive");
  if (!std::all_of(group_.begin(), group_.end(), [](const Member& m) { return m.given; }))
    return blame_who_left();
  Writer writer(MessageKind::gathered);
  writer.number(static_cast<std::uint64_t>(generation_)).number(round);
  for (Member& each : group_) {
    writer.bytes(*each.given);
    each.given.reset();
  }
  tell_all(writer.done());
}

void Keeper::abort(const Member& member, const std::string& why) {
  if (trouble_) return;
  trouble_ = Trouble{.failed = member.name, .why = why};
  tell_all(pack_trouble(generation_, *trouble_));
}

/// Two that do not reach each other cannot both stay. The later one goes: the first has to stay.
void Keeper::part(Member& member, std::uint64_t rank, const std::string& why) {
  if (rank >= group_.size() || trouble_) return;
  Member& other = group_[rank];
  if (other.presence != Presence::here) return;
  Member& later = member.number > other.number ? member : other;
  const Line line = later.line;
  lose(later,
       member.name + " and " + other.name + " do not reach each other any more (" + why + ")");
  lines_.tell(line, pack_trouble(generation_, *trouble_));
  lines_.hang_up(line);
}

void Keeper::lose(Member& member, const std::string& why) {
  member.presence = Presence::lost;
  if (!trouble_) trouble_ = Trouble{.why = why};
  trouble_->lost.push_back(member.name);
  tell_all(pack_trouble(generation_, *trouble_));
}

void Keeper::closed(Line line, const std::string& why) {
  std::erase_if(waiting_, [&](const auto& entry) { return entry.second.line == line; });
  Member* member = member_of(line);
  if (!member) return;
  lose(*member, why);
  make_group_when_all_ask();
}

void Keeper::leave(Member& member) {
  member.presence = Presence::left;
  blame_who_left();
  make_group_when_all_ask();
}

/// One that has left is lost to those who still wait for it.
void Keeper::blame_who_left() {
  if (trouble_) return;
  if (std::none_of(group_.begin(), group_.end(), [](const Member& m) { return m.given; })) return;
  for (Member& member : group_)
    if (member.presence == Presence::left && !member.given) return lose(member, kHasLeft);
}

void Keeper::leave() { tell_all(Writer(MessageKind::bye).done()); }

void Keeper::tell_all(const Packed& message) {
  for (const Member& member : group_)
    if (member.presence == Presence::here) lines_.tell(member.line, message);
}

/// Null: the line is of nobody in the group.
Keeper::Member* Keeper::member_of(Line line) {
  for (Member& member : group_)
    if (member.line == line && member.presence == Presence::here) return &member;
  return nullptr;
}

}  // namespace lockstep::machines
