#include "collective/nccl.h"

#include <c10/cuda/CUDAStream.h>
#include <lockstep/error.h>
#include <nccl.h>

#include <mutex>
#include <optional>

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
  explicit Nccl(const std::vector<int>& gpus) : gpus_(gpus) { start(); }
  ~Nccl() override { leave(ncclCommDestroy); }

  void move(std::span<const Move> moves, std::span<const c10::Stream> streams) override {
    refuse_crossing(moves, "NCCL");
    const std::scoped_lock lock(mutex_);
    start();
    NcclGroup group;
    for (const Move& move : moves) {
      if (move.source.nbytes() == 0) continue;
      const auto from = static_cast<std::size_t>(move.from);
      const auto to = static_cast<std::size_t>(move.to);
      group.add(ncclSend, move.source.const_data_ptr(), move.source.nbytes(), ncclUint8, move.to,
                communicators_[from], raw(streams[from]));
      group.add(ncclRecv, move.target.mutable_data_ptr(), move.target.nbytes(), ncclUint8,
                move.from, communicators_[to], raw(streams[to]));
    }
    require(group.end());
  }

  bool sum(std::span<const Sum> sums, std::span<const c10::Stream> streams) override {
    for (const Sum& sum : sums)
      if (crosses(sum) || !nccl_type(sum.target.scalar_type())) return false;
    const std::scoped_lock lock(mutex_);
    start();
    NcclGroup group;
    for (std::size_t tower = 0; tower < communicators_.size(); ++tower) {
      const ncclComm_t communicator = communicators_[tower];
      const cudaStream_t stream = raw(streams[tower]);
      if (is_scatter(sums)) {
        const torch::Tensor& target = sums[tower].target;
        group.add(ncclReduceScatter, sums[0].sources[tower].const_data_ptr(),
                  target.mutable_data_ptr(), length(target), *nccl_type(target.scalar_type()),
                  ncclSum, communicator, stream);
        continue;
      }
      for (const Sum& sum : sums)
        if (sum.target.numel() > 0)
          group.add(ncclReduce, sum.sources[tower].const_data_ptr(), sum.target.mutable_data_ptr(),
                    length(sum.target), *nccl_type(sum.target.scalar_type()), ncclSum, sum.to,
                    communicator, stream);
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
  /// Whether `sums` are one reduce-scatter: as many as towers, in their order, equally long, and in
  /// every tower one behind the other in memory.
  bool is_scatter(std::span<const Sum> sums) const {
    if (sums.size() != gpus_.size() || sums[0].target.numel() == 0) return false;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (sums[i].to != static_cast<int>(i)) return false;
      if (sums[i].target.numel() != sums[0].target.numel()) return false;
      if (sums[i].target.scalar_type() != sums[0].target.scalar_type()) return false;
      for (std::size_t tower = 0; tower < gpus_.size(); ++tower) {
        const auto* first = static_cast<const char*>(sums[0].sources[tower].const_data_ptr());
        if (sums[i].sources[tower].const_data_ptr() != first + i * sums[0].target.nbytes())
          return false;
      }
    }
    return true;
  }

  void start() {
    if (!communicators_.empty()) return;
    std::vector<ncclComm_t> fresh(gpus_.size());
    const ncclResult_t result =
        ncclCommInitAll(fresh.data(), static_cast<int>(fresh.size()), gpus_.data());
    if (result != ncclSuccess)
      throw ConfigError("NCCL cannot start on " + std::to_string(gpus_.size()) + " GPUs: " +
                        ncclGetErrorString(result) + " (" + ncclGetLastError(nullptr) + ").");
    communicators_ = std::move(fresh);
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
        throw DeviceLost("gpu:" + std::to_string(gpus_[tower]), ncclGetErrorString(state));
    }
  }

  void leave(ncclResult_t (*how)(ncclComm_t)) noexcept {
    if (communicators_.empty()) return;
    ncclGroupStart();
    for (const ncclComm_t communicator : communicators_) how(communicator);  // each, whatever fails
    ncclGroupEnd();
    communicators_.clear();
  }

  const std::vector<int> gpus_;

  std::mutex mutex_;
  std::vector<ncclComm_t> communicators_;  // by tower; guarded by mutex_; empty after abort()
};

}  // namespace

std::unique_ptr<Transport> make_nccl(const std::vector<int>& gpus) {
  return std::make_unique<Nccl>(gpus);
}

}  // namespace lockstep::collective
