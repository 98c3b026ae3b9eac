#include "collective/nccl.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <lockstep/error.h>
#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

namespace lockstep::collective {
namespace {

std::optional<ncclDataType_t> nccl_type(c10::ScalarType type) {
  switch (type) {
    case c10::kFloat:
      return ncclFloat32;
    case c10::kDouble:
      return ncclFloat64;
    case c10::kHalf:
      return ncclFloat16;
    case c10::kBFloat16:
      return ncclBfloat16;
    default:
      return std::nullopt;
  }
}

std::size_t length(const torch::Tensor& tensor) { return static_cast<std::size_t>(tensor.numel()); }

cudaStream_t raw(const c10::Stream& stream) { return c10::cuda::CUDAStream(stream).stream(); }

/// Calls between construction and end() are one operation of NCCL, so none of them can wait for
/// another. The first error is kept, and what is added after it is not tried.
class NcclGroup {
 public:
  NcclGroup() : result_(ncclGroupStart()), open_(result_ == ncclSuccess) {}
  ~NcclGroup() { end(); }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  template <class Call, class... Arguments>
  void add(Call call, Arguments... arguments) {
    if (result_ == ncclSuccess) result_ = call(arguments...);
  }

  ncclResult_t end() {
    if (!open_) return result_;
    open_ = false;
    const ncclResult_t ended = ncclGroupEnd();
    if (result_ == ncclSuccess) result_ = ended;
    return result_;
  }

 private:
  ncclResult_t result_;
  bool open_;
};

class Nccl final : public Transport {
 public:
  explicit Nccl(NcclRanks ranks) : ranks_(std::move(ranks)) { start(); }
  ~Nccl() override { leave(ncclCommDestroy); }

  void move(std::span<const Move> moves, std::span<const c10::Stream> streams) override {
    if (!ranks_.from_first) refuse_crossing(moves, "NCCL");
    const std::scoped_lock lock(mutex_);
    start();
    NcclGroup group;
    for (const Move& move : moves) {
      if (move.source.defined() && move.source.nbytes() > 0)
        group.add(ncclSend, move.source.const_data_ptr(), move.source.nbytes(), ncclUint8, move.to,
                  communicator(move.from), stream(streams, move.from));
      if (move.target.defined() && move.target.nbytes() > 0)
        group.add(ncclRecv, move.target.mutable_data_ptr(), move.target.nbytes(), ncclUint8,
                  move.from, communicator(move.to), stream(streams, move.to));
    }
    require(group.end());
  }

  bool sum(std::span<const Sum> sums, std::span<const c10::Stream> streams) override {
    for (const Sum& sum : sums)
      if ((crosses(sum) && !ranks_.from_first) || !nccl_type(here(sum).scalar_type())) return false;
    const std::scoped_lock lock(mutex_);
    start();
    NcclGroup group;
    for (int tower = ranks_.first; tower < ranks_.first + std::ssize(communicators_); ++tower) {
      if (is_scatter(sums)) {
        const Sum& own = sums[static_cast<std::size_t>(tower)];
        group.add(ncclReduceScatter, source(sums[0], tower).const_data_ptr(),
                  own.target.mutable_data_ptr(), length(own.target),
                  *nccl_type(own.target.scalar_type()), ncclSum, communicator(tower),
                  stream(streams, tower));
        continue;
      }
      for (const Sum& sum : sums)
        if (const torch::Tensor& own = source(sum, tower); own.numel() > 0)
          group.add(ncclReduce, own.const_data_ptr(),
                    sum.to == tower ? sum.target.mutable_data_ptr() : nullptr, length(own),
                    *nccl_type(own.scalar_type()), ncclSum, sum.to, communicator(tower),
                    stream(streams, tower));
    }
    require(group.end());
    return true;
  }

  void check() override {
    const std::scoped_lock lock(mutex_);
    find_lost();
  }

  void abort() noexcept override {
    const std::scoped_lock lock(mutex_);
    leave(ncclCommAbort);
  }

 private:
  static const torch::Tensor& source(const Sum& sum, int tower) {
    return sum.sources[static_cast<std::size_t>(tower)];
  }
  static cudaStream_t stream(std::span<const c10::Stream> streams, int tower) {
    return raw(streams[static_cast<std::size_t>(tower)]);
  }
  /// What a tower of this process brings.
  const torch::Tensor& here(const Sum& sum) const { return source(sum, ranks_.first); }
  ncclComm_t communicator(int tower) const {
    return communicators_[static_cast<std::size_t>(tower - ranks_.first)];
  }

  /// Whether `sums` are one reduce-scatter: of towers of this process alone, as many as towers, in
  /// their order, equally long, and in every tower one behind the other in memory.
  bool is_scatter(std::span<const Sum> sums) const {
    const std::size_t towers = ranks_.gpus.size();
    if (ranks_.from_first || sums.size() != towers || sums[0].target.numel() == 0) return false;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (sums[i].to != static_cast<int>(i)) return false;
      if (sums[i].target.numel() != sums[0].target.numel()) return false;
      if (sums[i].target.scalar_type() != sums[0].target.scalar_type()) return false;
      for (std::size_t tower = 0; tower < towers; ++tower) {
        const auto* first = static_cast<const char*>(sums[0].sources[tower].const_data_ptr());
        if (sums[i].sources[tower].const_data_ptr() != first + i * sums[0].target.nbytes())
          return false;
      }
    }
    return true;
  }

  void start() {
    if (!communicators_.empty()) return;
    std::vector<ncclComm_t> fresh(ranks_.gpus.size());
    const ncclResult_t result = ranks_.from_first ? start_across(fresh) : start_inside(fresh);
    if (result != ncclSuccess)
      throw ConfigError("NCCL cannot start on " + std::to_string(ranks_.gpus.size()) + " GPUs: " +
                        ncclGetErrorString(result) + " (" + ncclGetLastError(nullptr) + ").");
    communicators_ = std::move(fresh);
  }

  ncclResult_t start_inside(std::vector<ncclComm_t>& fresh) const {
    return ncclCommInitAll(fresh.data(), static_cast<int>(fresh.size()), ranks_.gpus.data());
  }

  /// The first process makes the id by which all find each other. Not again after abort(): the
  /// others would not be there.
  ncclResult_t start_across(std::vector<ncclComm_t>& fresh) {
    lockstep::check(!std::exchange(started_, true), "a communicator of several machines was left");
    ncclUniqueId id{};
    ncclResult_t made = ncclSuccess;
    if (ranks_.first == 0) made = ncclGetUniqueId(&id);
    const auto bytes = std::as_bytes(std::span(&id, 1));
    const std::vector<std::byte> theirs = ranks_.from_first({bytes.begin(), bytes.end()});
    if (made != ncclSuccess) return made;
    std::memcpy(&id, theirs.data(), std::min(theirs.size(), sizeof id));
    NcclGroup group;
    for (std::size_t i = 0; i < fresh.size(); ++i) {
      const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(ranks_.gpus[i]));
      group.add(ncclCommInitRank, &fresh[i], ranks_.total, id, ranks_.first + static_cast<int>(i));
    }
    return group.end();
  }

  void require(ncclResult_t result) {
    if (result == ncclSuccess) return;
    find_lost();
    throw std::runtime_error(std::string("NCCL: ") + ncclGetErrorString(result) + " (" +
                             ncclGetLastError(nullptr) + ")");
  }

  void find_lost() {
    for (std::size_t tower = 0; tower < communicators_.size(); ++tower) {
      ncclResult_t state = ncclSuccess;
      const ncclResult_t asked = ncclCommGetAsyncError(communicators_[tower], &state);
      if (asked != ncclSuccess) state = asked;
      if (state != ncclSuccess && state != ncclInProgress)
        throw DeviceLost("gpu:" + std::to_string(ranks_.gpus[tower]), ncclGetErrorString(state));
    }
  }

  void leave(ncclResult_t (*how)(ncclComm_t)) noexcept {
    if (communicators_.empty()) return;
    ncclGroupStart();
    for (const ncclComm_t communicator : communicators_) how(communicator);  // each, whatever fails
    ncclGroupEnd();
    communicators_.clear();
  }

  const NcclRanks ranks_;

  std::mutex mutex_;
  bool started_ = false;                   // across processes; guarded by mutex_
  std::vector<ncclComm_t> communicators_;  // of this process, by tower; guarded by mutex_; empty
                                           // after abort()
};

}  // namespace

std::unique_ptr<Transport> make_nccl(const std::vector<int>& gpus) {
  return make_nccl(NcclRanks{.gpus = gpus, .total = static_cast<int>(gpus.size())});
}

std::unique_ptr<Transport> make_nccl(const NcclRanks& ranks) {
  return std::make_unique<Nccl>(ranks);
}

}  // namespace lockstep::collective
