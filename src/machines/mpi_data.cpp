// Data by MPI. This is a module of its own, with mpi_process.cpp: nobody needs libmpi who does not
// ask for it.

#include <lockstep/error.h>

#include <cstring>

#include "machines/mpi_module.h"
#include "machines/mpi_process.h"

namespace lockstep::machines {
namespace {

/// What the transfers of one group share.
struct Group {
  MPI_Comm communicator = MPI_COMM_NULL;
  bool over = false;  // guarded by the mutex of MpiProcess
};

class MpiTransfer : public Data::Transfer {
 public:
  MpiTransfer(std::shared_ptr<const Group> group, std::shared_ptr<const MpiLetter> letter,
              std::span<std::byte> arrives)
      : group_(std::move(group)), letter_(std::move(letter)), arrives_(arrives) {}

  bool wait() override {
    if (!MpiProcess::get().wait(*letter_, group_->over)) return false;
    if (!arrives_.empty()) std::memcpy(arrives_.data(), letter_->bytes.get(), arrives_.size());
    return true;
  }

 private:
  const std::shared_ptr<const Group> group_;
  const std::shared_ptr<const MpiLetter> letter_;
  const std::span<std::byte> arrives_;  // empty: it is sent
};

class MpiData : public Data {
 public:
  MpiData(const DataOptions& options, Board& board) {
    const auto deadline = Clock::now() + ticks(options.connect);
    const auto [rank, size] = MpiProcess::get().place(deadline, board);
    if (rank != options.rank || size != options.size)
      throw ConfigError("to MPI this process is number " + std::to_string(rank) + " of " +
                        std::to_string(size) + ", but this is machine " +
                        std::to_string(options.rank) + " of " + std::to_string(options.size) +
                        ": start all by one mpirun or srun of this MPI, without --machine");
    group_->communicator = MpiProcess::get().join(deadline, board);
  }

  std::unique_ptr<Transfer> send(int to, std::uint32_t tag,
                                 std::span<const std::byte> bytes) override {
    const auto letter = letter_of(to, tag, bytes.size());
    letter->sends = true;
    std::memcpy(letter->bytes.get(), bytes.data(), bytes.size());
    return begin(letter, {});
  }
  std::unique_ptr<Transfer> receive(int from, std::uint32_t tag,
                                    std::span<std::byte> bytes) override {
    return begin(letter_of(from, tag, bytes.size()), bytes);
  }

  void abort() noexcept override { MpiProcess::get().abort(group_->communicator, group_->over); }

 private:
  std::shared_ptr<MpiLetter> letter_of(int other, std::uint32_t tag, std::size_t size) const {
    auto letter = std::make_shared<MpiLetter>();
    letter->group = group_->communicator;
    letter->other = other;
    letter->tag = tag;
    letter->bytes = std::make_unique_for_overwrite<std::byte[]>(size);
    letter->size = size;
    return letter;
  }
  std::unique_ptr<Transfer> begin(const std::shared_ptr<MpiLetter>& letter,
                                  std::span<std::byte> arrives) {
    MpiProcess::get().begin(letter);
    return std::make_unique<MpiTransfer>(group_, letter, arrives);
  }

  const std::shared_ptr<Group> group_ = std::make_shared<Group>();
};

}  // namespace
}  // namespace lockstep::machines

lockstep::machines::Data* lockstep_connect_mpi(const lockstep::machines::DataOptions& options,
                                               lockstep::machines::Board& board) {
  return new lockstep::machines::MpiData(options, board);
}
