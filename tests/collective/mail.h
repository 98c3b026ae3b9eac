#pragma once

// A meeting and a transport for towers of several processes that share nothing but a mailbox: they
// send each other bytes. For tests, where the processes are threads of one.

#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <sstream>
#include <tuple>

#include "collective/peer_copy.h"
#include "collective/thread_meeting.h"

namespace mail {

using namespace lockstep;
using namespace lockstep::collective;

using Bytes = std::vector<std::byte>;

/// Letters by address, in the order in which they were sent.
class Mailbox {
 public:
  enum class Kind { control, data };
  using Address = std::tuple<Kind, int, int>;  ///< from, to: processes, or towers for data

  void send(const Address& address, Bytes letter) {
    const std::scoped_lock lock(mutex_);
    letters_[address].push_back(std::move(letter));
    changed_.notify_all();
  }

  Bytes take(const Address& address) {
    std::unique_lock lock(mutex_);
    std::deque<Bytes>& letters = letters_[address];
    changed_.wait(lock, [&] { return !letters.empty() || aborted_; });
    if (letters.empty()) throw Aborted();
    Bytes letter = std::move(letters.front());
    letters.pop_front();
    return letter;
  }

  bool empty() const {
    const std::scoped_lock lock(mutex_);
    for (const auto& [address, letters] : letters_)
      if (!letters.empty()) return false;
    return true;
  }

  void abort() {
    const std::scoped_lock lock(mutex_);
    aborted_ = true;
    changed_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Address, std::deque<Bytes>> letters_;
  bool aborted_ = false;
};

/// Values written one after the other, and read in the same order.
class Letter {
 public:
  Letter() = default;
  explicit Letter(Bytes bytes) : bytes_(std::move(bytes)) {}

  void put(const void* from, std::size_t size) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + size);
    if (size > 0) std::memcpy(bytes_.data() + at, from, size);
  }
  void put(std::size_t number) { put(&number, sizeof number); }

  void get(void* into, std::size_t size) {
    ASSERT_LE(next_ + size, bytes_.size());
    if (size > 0) std::memcpy(into, bytes_.data() + next_, size);
    next_ += size;
  }
  std::size_t number() {
    std::size_t result = 0;
    get(&result, sizeof result);
    return result;
  }

  const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
  std::size_t next_ = 0;
};

/// Every call is an exchange of letters between the first towers of the processes.
class MailMeeting : public Meeting {
 public:
  /// `process_of` by tower; the towers of a process are neighbours.
  MailMeeting(Mailbox& box, int process, std::vector<int> process_of)
      : box_(box),
        process_(process),
        process_of_(std::move(process_of)),
        first_(static_cast<int>(std::ranges::find(process_of_, process) - process_of_.begin())),
        inside_(static_cast<int>(std::ranges::count(process_of_, process)), DeviceKind::sim),
        letters_(process_of_.size()) {}

  int towers() const override { return static_cast<int>(process_of_.size()); }
  void meet(int tower) override { all_to_all(tower, {}); }

  double sum(int tower, std::span<const SumTerms> lists) override {
    Letter mine;
    for (const SumTerms terms : lists) {
      mine.put(terms.size());
      mine.put(terms.data(), terms.size_bytes());
    }
    std::vector<Letter> letters = all_to_all(tower, mine);
    double total = 0;
    for (std::size_t list = 0; list < lists.size(); ++list)
      for (Letter& letter : letters) {
        std::vector<double> terms(letter.number());
        letter.get(terms.data(), terms.size() * sizeof(double));
        for (const double term : terms) total += term;
      }
    return total;
  }

  std::vector<char> any(int tower, std::span<const char> flags) override {
    Letter mine;
    mine.put(flags.data(), flags.size());
    std::vector<char> result;
    for (const Letter& letter : all_to_all(tower, mine)) {
      result.resize(std::max(result.size(), letter.bytes().size()));
      for (std::size_t i = 0; i < letter.bytes().size(); ++i)
        if (letter.bytes()[i] != std::byte{0}) result[i] = 1;
    }
    return result;
  }

  void collect(int tower, std::span<const ArenaPart> mine,
               std::span<const torch::Tensor> whole) override {
    Letter own;
    own.put(mine.size());
    for (const ArenaPart& part : mine) {
      const torch::Tensor values = part.values.cpu();
      own.put(part.arena);
      own.put(static_cast<std::size_t>(part.range.begin));
      own.put(values.nbytes());
      own.put(values.const_data_ptr(), values.nbytes());
    }
    std::vector<Letter> letters = all_to_all(tower, own);
    if (tower != 0) return;
    for (Letter& letter : letters)
      for (std::size_t parts = letter.number(); parts > 0; --parts) {
        const torch::Tensor& arena = whole[letter.number()];
        auto* into = static_cast<std::byte*>(arena.mutable_data_ptr()) +
                     letter.number() * arena.element_size();
        letter.get(into, letter.number());
      }
  }

  std::vector<TensorList> through_first(int tower, std::span<const TensorList> mine,
                                        const ListWork& work) override {
    std::size_t before = 0;
    std::vector<TensorList> all;
    std::vector<Letter> letters = all_to_all(tower, letter_of(mine));
    for (std::size_t i = 0; i < letters.size(); ++i) {
      const std::vector<TensorList> theirs = lists_in(letters[i]);
      all.insert(all.end(), theirs.begin(), theirs.end());
      if (static_cast<int>(i) < tower) before += theirs.size();
    }
    Letter answer;
    if (tower == 0) answer = letter_of(work(all));
    all = lists_in(all_to_all(tower, answer).front());
    const auto own = all.begin() + static_cast<std::ptrdiff_t>(before);
    return {own, own + static_cast<std::ptrdiff_t>(mine.size())};
  }

  void abort() noexcept override {
    inside_.abort();
    box_.abort();
  }
  bool aborted() const noexcept override { return inside_.aborted(); }
  void reset() override { inside_.reset(); }
  Seconds waited(int tower) const override { return inside_.waited(tower - first_); }

 private:
  static Letter letter_of(std::span<const TensorList> lists) {
    Letter letter;
    letter.put(lists.size());
    for (const TensorList& list : lists) {
      std::ostringstream bytes;
      torch::save(list, bytes);
      letter.put(bytes.str().size());
      letter.put(bytes.str().data(), bytes.str().size());
    }
    return letter;
  }

  static std::vector<TensorList> lists_in(Letter& letter) {
    std::vector<TensorList> lists(letter.number());
    for (TensorList& list : lists) {
      std::string bytes(letter.number(), 0);
      letter.get(bytes.data(), bytes.size());
      std::istringstream stream(bytes);
      torch::load(list, stream);
    }
    return lists;
  }
  static std::vector<TensorList> lists_in(Letter&& letter) { return lists_in(letter); }

  /// What each tower of all processes brings, by tower.
  std::vector<Letter> all_to_all(int tower, Letter mine) {
    letters_[static_cast<std::size_t>(tower)] = std::move(mine);
    inside_.meet(tower - first_);
    if (tower == first_) trade();
    inside_.meet(tower - first_);
    std::vector<Letter> result = letters_;
    inside_.meet(tower - first_);  // all have read
    return result;
  }

  void trade() {
    using enum Mailbox::Kind;
    for (std::size_t own = 0; own < letters_.size(); ++own)
      for (int process = 0; process <= process_of_.back(); ++process)
        if (process_of_[own] == process_ && process != process_)
          box_.send({control, process_, process}, letters_[own].bytes());
    for (std::size_t other = 0; other < letters_.size(); ++other)
      if (process_of_[other] != process_)
        letters_[other] = Letter(box_.take({control, process_of_[other], process_}));
  }

  Mailbox& box_;
  const int process_;
  const std::vector<int> process_of_;
  const int first_;
  ThreadMeeting inside_;
  std::vector<Letter> letters_;  // by tower
};

/// Copies inside a process; letters across, once the sender's stream has come so far.
class MailTransport : public Transport {
 public:
  explicit MailTransport(Mailbox& box) : box_(box) {}

  void move(std::span<const Move> moves, std::span<const c10::Stream> streams) override {
    using enum Mailbox::Kind;
    std::vector<Move> own;
    for (const Move& move : moves)
      if (!crosses(move)) own.push_back(move);
    copies_.move(own, streams);
    for (const Move& move : moves) {
      if (!crosses(move) || !move.source.defined()) continue;
      streams[static_cast<std::size_t>(move.from)].synchronize();
      const torch::Tensor values = move.source.cpu();
      Letter letter;
      letter.put(values.const_data_ptr(), values.nbytes());
      box_.send({data, move.from, move.to}, letter.bytes());
    }
    for (const Move& move : moves) {
      if (!crosses(move) || !move.target.defined()) continue;
      Bytes letter = box_.take({data, move.from, move.to});
      ASSERT_EQ(letter.size(), move.target.nbytes());
      const c10::Stream& stream = streams[static_cast<std::size_t>(move.to)];
      stream.synchronize();
      const c10::MultiStreamGuard guard(c10::ArrayRef<c10::Stream>{stream});
      torch::Tensor(move.target)
          .copy_(torch::from_blob(letter.data(), move.target.sizes(), move.target.scalar_type()));
      stream.synchronize();
    }
  }

  void abort() noexcept override { box_.abort(); }

 private:
  Mailbox& box_;
  PeerCopy copies_;
};

}  // namespace mail
