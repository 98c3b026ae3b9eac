#pragma once

// Several machines that train together: one process each, in a group.
//
// The first machine keeps the group: all others are connected to it, and it may not be lost. It
// listens on the address it was given and nowhere else. Tensors go straight from machine to machine
// by LibTorch's Gloo, on a free port of each machine's own address, or by MPI.
//
// What an outsider on the network can do: who does not know the secret is turned away before
// anything he sends is interpreted. Bytes are not encrypted, and the ports that tensors go by ask
// for no secret. Use a network that you trust.

#include <lockstep/seconds.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace lockstep {

using Bytes = std::vector<std::byte>;

/// How tensors get from machine to machine. The result is the same.
enum class MachineTransport {
  gloo,  ///< LibTorch's, over TCP
  mpi,   ///< of mpirun, which has started all machines: a job that loses one of them ends
};

/// How this process finds the others.
struct MachinesOptions {
  int machine = 0;           ///< its number, from 0
  int machines = 1;          ///< how many there are
  std::string first = "";    ///< "host:port" of the first, which listens there and nowhere else
  std::string address = "";  ///< of this machine, for data; empty: the one that leads to `first`
  std::string name = "";     ///< for people; empty: the host's. Two alike get their number added
  std::string secret = "";   ///< shared; checked before anything else is read. Empty: who reaches
                             ///< the first machine's port is believed
  Seconds start{60};         ///< to wait for all others at the start
  Seconds silence{8};        ///< without a sign of life: the machine is lost
  MachineTransport transport = MachineTransport::gloo;
};

/// What ended the calls of a group: machines that are gone, or one that failed in its own work.
struct Trouble {
  std::vector<std::string> lost = {};  ///< names
  std::string failed = "";             ///< the name of a machine that called abort()
  std::string why = "";                ///< what it said, or how the loss showed
};

/// The message names the machines. Calls of a group throw it after trouble, until regroup().
struct MachinesError : std::runtime_error {
  explicit MachinesError(Trouble trouble);
  Trouble trouble;
};

/// Those who train together. One process each; all call the same functions in the same order.
class Machines {
 public:
  /// Says good-bye: the others do not take it for a loss, unless they still wait for this machine.
  virtual ~Machines() = default;

  virtual int rank() const = 0;  ///< own number among those at work; the first machine's is 0
  virtual int size() const = 0;

  /// Valid until regroup().
  virtual const std::string& name(int rank) const = 0;

  /// How often a group was made, from 0. The same on all machines of a group.
  virtual std::int64_t generation() const = 0;

  /// Every machine's bytes, by rank; lengths may differ. From one thread at a time. For what is
  /// small: all of it goes through the first machine.
  virtual std::vector<Bytes> all_gather(std::span<const std::byte> mine) = 0;

  /// A transfer under way. Destroying it without wait() gives it up: no byte is touched any more.
  class Transfer {
   public:
    virtual ~Transfer() = default;

    /// Returns when the bytes have arrived, or may be changed again. Once.
    virtual void wait() = 0;
  };

  /// Begin to send and to receive. The bytes stay as they are, and there, until wait() has returned
  /// or thrown. Both sides name the same length and the same tag, below 2^31; with the same two
  /// machines and tag, in order. A send may wait until the other side receives. Any thread.
  virtual std::unique_ptr<Transfer> send(int to, std::uint32_t tag,
                                         std::span<const std::byte> bytes) = 0;
  virtual std::unique_ptr<Transfer> receive(int from, std::uint32_t tag,
                                            std::span<std::byte> bytes) = 0;

  /// Ends what is under way, on all machines: every call that waits and every later one throws
  /// MachinesError there and here, until regroup(). Any thread.
  virtual void abort(const std::string& why) noexcept = 0;

  /// What ended the calls of this group, as far as it is known here; it may grow. Any thread.
  virtual std::optional<Trouble> trouble() const = 0;

  /// After trouble: a new group of those who are left, with ranks anew, in the old order, and of
  /// those who wait to be taken in. All of them call it, and no other call is under way. Throws
  /// MachinesError when this machine is cut off from the first, and by MPI after a loss.
  virtual void regroup() = 0;

  /// The names of machines that wait in join() for the next regroup(): they were lost and have come
  /// back. The first machine knows; for others it is empty. Any thread.
  virtual std::vector<std::string> waiting() const { return {}; }
};

/// Joins. Returns when all machines are there; a machine that comes back after it was lost waits
/// for the regroup() of the others, however long that takes. With one machine there is no network.
/// Throws ConfigError for options that are wrong, MachinesError when the others do not come.
std::shared_ptr<Machines> join(const MachinesOptions& options);

/// As launchers tell it, by the variables that `get` looks up (OpenMPI's mpirun, MPICH's, Slurm's
/// srun, torchrun); nothing: this process is alone. LOCKSTEP_FIRST (host:port), LOCKSTEP_ADDRESS
/// and LOCKSTEP_SECRET are read on top of any of them. Throws ConfigError for more than one process
/// on a machine, and when the first machine's address cannot be told.
std::optional<MachinesOptions> launched(
    const std::function<std::optional<std::string>(const char*)>& get);

}  // namespace lockstep
