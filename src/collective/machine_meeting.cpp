#include "collective/machine_meeting.h"

#include <algorithm>
#include <numeric>

#include "collective/tensor_letter.h"
#include "device/accelerator.h"

namespace lockstep::collective {

using base::Letter;
using base::LetterReader;

MachineMeeting::MachineMeeting(std::shared_ptr<Machines> machines, std::vector<int> towers,
                               DeviceKind kind, bool spins)
    : machines_(std::move(machines)),
      by_machine_(std::move(towers)),
      first_(std::accumulate(by_machine_.begin(), by_machine_.begin() + machines_->rank(), 0)),
      towers_(std::accumulate(by_machine_.begin(), by_machine_.end(), 0)),
      kind_(kind),
      inside_(by_machine_.at(static_cast<std::size_t>(machines_->rank())), kind, spins) {
  check(std::ssize(by_machine_) == machines_->size(), "a meeting has the towers of all machines");
  for (auto& letters : mine_) letters.resize(static_cast<std::size_t>(inside_.towers()));
  meetings_.resize(static_cast<std::size_t>(inside_.towers()));
  outside_.resize(static_cast<std::size_t>(inside_.towers()));
}

MachineMeeting::Waiting::Waiting(MachineMeeting& meeting, int tower)
    : meeting_(meeting), tower_(tower), begin_(device::host_now(meeting.kind_)) {}

MachineMeeting::Waiting::~Waiting() {
  meeting_.outside_[static_cast<std::size_t>(tower_ - meeting_.first_)] +=
      device::host_now(meeting_.kind_) - begin_;
}

Seconds MachineMeeting::waited(int tower) const {
  return inside_.waited(tower - first_) + outside_[static_cast<std::size_t>(tower - first_)];
}

std::vector<LetterReader> MachineMeeting::trade(int tower, Letter mine) {
  const auto local = static_cast<std::size_t>(tower - first_);
  const std::size_t parity = meetings_[local]++ % 2;
  mine_[parity][local] = std::move(mine);
  meet_inside(tower);
  if (leads(tower)) trade_outside(parity);
  meet_inside(tower);
  std::vector<LetterReader> letters;
  for (std::size_t machine = 0; machine < by_machine_.size(); ++machine) {
    LetterReader all(theirs_[parity][machine]);
    for (int i = 0; i < by_machine_[machine]; ++i)
      letters.emplace_back(all.bytes(all.get<std::size_t>()));
  }
  return letters;
}

void MachineMeeting::trade_outside(std::size_t parity) {
  const Waiting waiting(*this, first_);
  Letter own;
  for (const Letter& letter : mine_[parity])
    own.put_list(std::span<const std::byte>(letter.bytes()));
  theirs_[parity] = machines_->all_gather(own.bytes());
}

void MachineMeeting::reset() {
  inside_.reset();
  meetings_.assign(meetings_.size(), 0);  // an abort may have left them apart
}

void MachineMeeting::meet(int tower) { trade(tower, {}); }

double MachineMeeting::sum(int tower, std::span<const SumTerms> lists) {
  Letter mine;
  for (const SumTerms terms : lists) mine.put_list(terms);
  std::vector<LetterReader> letters = trade(tower, std::move(mine));
  double total = 0;
  for (std::size_t list = 0; list < lists.size(); ++list)
    for (LetterReader& letter : letters)
      for (const double term : letter.list<double>()) total += term;
  return total;
}

std::vector<char> MachineMeeting::any(int tower, std::span<const char> flags) {
  Letter mine;
  mine.put_list(flags);
  std::vector<char> result;
  for (LetterReader& letter : trade(tower, std::move(mine))) {
    const std::vector<char> theirs = letter.list<char>();
    result.resize(std::max(result.size(), theirs.size()));
    for (std::size_t i = 0; i < theirs.size(); ++i)
      if (theirs[i]) result[i] = 1;
  }
  return result;
}

void MachineMeeting::collect(int tower, std::span<const ArenaPart> mine,
                             std::span<const torch::Tensor> whole) {
  const torch::NoGradGuard no_grad;
  if (leads(tower)) whole_ = whole;
  Letter own;
  own.put(mine.size());
  for (const ArenaPart& part : mine) {
    own.put(part.arena);
    own.put(part.range);
  }
  std::vector<LetterReader> letters = trade(tower, std::move(own));
  for (const ArenaPart& part : mine)
    whole_[part.arena].narrow(0, part.range.begin, part.range.size()).copy_(part.values);
  meet_inside(tower);
  if (leads(tower)) trade_parts(letters);
  meet_inside(tower);
}

/// Sends the parts of this machine to all others, and takes in theirs; `letters` say which.
void MachineMeeting::trade_parts(std::vector<LetterReader>& letters) {
  std::vector<std::unique_ptr<Machines::Transfer>> transfers;
  for (int machine = 0, tower = 0; machine < machines_->size(); ++machine)
    for (int i = 0; i < by_machine_[static_cast<std::size_t>(machine)]; ++i, ++tower) {
      LetterReader& letter = letters[static_cast<std::size_t>(tower)];
      for (auto parts = letter.get<std::size_t>(); parts > 0; --parts) {
        const torch::Tensor& arena = whole_[letter.get<std::size_t>()];
        const auto range = letter.get<arena::Slice>();
        const torch::Tensor part = arena.narrow(0, range.begin, range.size());
        if (machine != machines_->rank()) {
          transfers.push_back(machines_->receive(machine, kCollectTag, writable_bytes_of(part)));
          continue;
        }
        for (int other = 0; other < machines_->size(); ++other)
          if (other != machine)
            transfers.push_back(machines_->send(other, kCollectTag, bytes_of(part)));
      }
    }
  for (const auto& transfer : transfers) transfer->wait();
}

std::vector<TensorList> MachineMeeting::through_first(int tower, std::span<const TensorList> mine,
                                                      const ListWork& work) {
  Letter own;
  own.put(mine.size());
  for (const TensorList& list : mine) put_tensors(own, list);
  std::vector<LetterReader> letters = trade(tower, std::move(own));
  std::vector<std::size_t> counts;
  for (LetterReader& letter : letters) counts.push_back(letter.get<std::size_t>());
  Letter answer;
  if (tower == 0) {
    std::vector<TensorList> all;
    for (std::size_t i = 0; i < letters.size(); ++i)
      for (std::size_t k = 0; k < counts[i]; ++k) all.push_back(get_tensors(letters[i]));
    for (const TensorList& list : work(all)) put_tensors(answer, list);
  }
  LetterReader answers = trade(tower, std::move(answer)).front();
  const auto before = counts.begin() + tower;
  for (std::size_t skip = std::accumulate(counts.begin(), before, std::size_t{0}); skip > 0; --skip)
    get_tensors(answers);
  std::vector<TensorList> result;
  while (result.size() < mine.size()) result.push_back(get_tensors(answers));
  return result;
}

}  // namespace lockstep::collective
