// Data by c10d's Gloo, which is inside libtorch_cpu.so.

#define USE_C10D_GLOO
#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <algorithm>
#include <mutex>
#include <set>

#include "machines/data.h"

namespace lockstep::machines {
namespace {

/// A machine that computes for long is not lost: the hub finds out who is. So waits have no end.
constexpr std::chrono::hours kNoLimit{24 * 365};

/// c10d's store on top of a board: what Gloo needs to connect. The rest is refused.
class BoardStore : public c10d::Store {
 public:
  BoardStore(std::shared_ptr<Board> board, std::chrono::milliseconds limit)
      : c10d::Store(limit), board_(std::move(board)) {}

  c10::intrusive_ptr<c10d::Store> clone() override {
    return c10::make_intrusive<BoardStore>(board_, timeout_);
  }
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override {
    board_->set(key, std::as_bytes(std::span(value)));
  }
  std::vector<std::uint8_t> get(const std::string& key) override {
    const Bytes value = board_->get(key, Clock::now() + timeout_);
    const auto* begin = reinterpret_cast<const std::uint8_t*>(value.data());
    return {begin, begin + value.size()};
  }
  bool check(const std::vector<std::string>& keys) override {
    return std::all_of(keys.begin(), keys.end(),
                       [&](const std::string& key) { return board_->has(key); });
  }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& limit) override {
    const auto deadline = Clock::now() + std::min(limit, timeout_);
    for (const std::string& key : keys) board_->get(key, deadline);
  }

  std::int64_t add(const std::string& /*key*/, std::int64_t /*value*/) override { refuse("add"); }
  bool deleteKey(const std::string& /*key*/) override { refuse("deleteKey"); }
  std::int64_t getNumKeys() override { refuse("getNumKeys"); }

 private:
  [[noreturn]] static void refuse(const char* what) {
    throw std::logic_error(std::string("the machines' store has no ") + what +
                           ": this version of LibTorch makes Gloo groups in another way; use the "
                           "version that scripts/setup installs");
  }

  const std::shared_ptr<Board> board_;
};

using Group = c10::intrusive_ptr<c10d::ProcessGroupGloo>;
using Work = c10::intrusive_ptr<c10d::Work>;

/// The Works that are under way. Gloo's own abort of a group does nothing, a Work's frees its wait.
class Works {
 public:
  void add(c10d::Work* work) {
    const std::lock_guard lock(mutex_);
    works_.insert(work);
    if (aborted_) work->abort();
  }
  void remove(c10d::Work* work) {
    const std::lock_guard lock(mutex_);
    works_.erase(work);
  }
  void abort() {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    for (c10d::Work* work : works_) work->abort();
  }

 private:
  std::mutex mutex_;
  std::set<c10d::Work*> works_;
  bool aborted_ = false;
};

/// Its end frees the Work, and with it Gloo's buffer: that waits until Gloo's thread has let go of
/// the bytes, and what comes later finds no buffer to be written to.
class GlooTransfer : public Data::Transfer {
 public:
  GlooTransfer(std::shared_ptr<Works> works, Group group, Work work)
      : works_(std::move(works)), group_(std::move(group)), work_(std::move(work)) {
    works_->add(work_.get());
  }
  ~GlooTransfer() override { works_->remove(work_.get()); }
  GlooTransfer(const GlooTransfer&) = delete;
  GlooTransfer& operator=(const GlooTransfer&) = delete;

  bool wait() override { return work_->wait(kNoLimit); }

 private:
  const std::shared_ptr<Works> works_;
  const Group group_;
  const Work work_;
};

class GlooData : public Data {
 public:
  GlooData(const DataOptions& options, std::shared_ptr<Board> board) {
    const auto limit = std::chrono::ceil<std::chrono::milliseconds>(options.connect);
    auto settings = c10d::ProcessGroupGloo::Options::create(limit);
    settings->threads = 1;  // for collectives, which are not used
    settings->devices.push_back(
        c10d::ProcessGroupGloo::createDeviceForHostname(options.address, false));
    const std::set<std::string> others = open_sockets();
    group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(
        c10::make_intrusive<BoardStore>(std::move(board), limit), options.rank, options.size,
        settings);
    limit_silence(options.silence, others);
  }

  std::unique_ptr<Transfer> send(int to, std::uint32_t tag,
                                 std::span<const std::byte> bytes) override {
    // Gloo takes tensors that could be written to, and only reads what it sends.
    std::vector<at::Tensor> tensors{view(const_cast<std::byte*>(bytes.data()), bytes.size())};
    const std::lock_guard lock(mutex_);
    return transfer(group_->send(tensors, to, static_cast<int>(tag)));
  }
  std::unique_ptr<Transfer> receive(int from, std::uint32_t tag,
                                    std::span<std::byte> bytes) override {
    std::vector<at::Tensor> tensors{view(bytes.data(), bytes.size())};
    const std::lock_guard lock(mutex_);
    return transfer(group_->recv(tensors, from, static_cast<int>(tag)));
  }

  void abort() noexcept override { works_->abort(); }

 private:
  static at::Tensor view(std::byte* begin, std::size_t size) {
    return at::from_blob(begin, {static_cast<std::int64_t>(size)}, at::kByte);
  }

  std::unique_ptr<Transfer> transfer(Work work) {
    return std::make_unique<GlooTransfer>(works_, group_, std::move(work));
  }

  Group group_;
  std::mutex mutex_;  // the group counts its calls without a lock
  const std::shared_ptr<Works> works_ = std::make_shared<Works>();
};

}  // namespace

std::unique_ptr<Data> connect_gloo(const DataOptions& options, std::shared_ptr<Board> board) {
  return std::make_unique<GlooData>(options, std::move(board));
}

}  // namespace lockstep::machines
