#pragma once

#include <lockstep/machines.h>

#include "machines/socket.h"

namespace lockstep::machines {

/// Where the machines of one group leave word how they are reached for data.
class Board {
 public:
  virtual ~Board() = default;
  virtual void set(const std::string& key, std::span<const std::byte> value) = 0;

  /// Waits until a machine has set it. Throws at the deadline, and on trouble.
  virtual Bytes get(const std::string& key, Clock::time_point deadline) = 0;
  virtual bool has(const std::string& key) = 0;

  /// Throws on trouble: there is nothing to wait for any more.
  virtual void check() = 0;
};

/// The data connections of one group: each machine with each. Any thread may call.
class Data {
 public:
  virtual ~Data() = default;

  class Transfer {
   public:
    /// Afterwards nothing touches the bytes any more.
    virtual ~Transfer() = default;

    /// Returns whether the bytes went: false after abort(). Throws a std::exception when the
    /// connection broke.
    virtual bool wait() = 0;
  };

  /// Of at least one byte, with another machine. Throw a std::exception when the connection is
  /// broken.
  virtual std::unique_ptr<Transfer> send(int to, std::uint32_t tag,
                                         std::span<const std::byte> bytes) = 0;
  virtual std::unique_ptr<Transfer> receive(int from, std::uint32_t tag,
                                            std::span<std::byte> bytes) = 0;

  /// Every wait, also a later one, returns false. Once that is done the group is of no use.
  virtual void abort() noexcept = 0;
};

struct DataOptions {
  std::string address;  ///< of this machine
  int rank = 0;
  int size = 0;
  Seconds connect{10};  ///< for all machines to be connected
  Seconds silence{8};   ///< without a sign that bytes arrive: the connection broke (gloo)
};

/// Connects to all machines of the group, which call it too. Throws a std::exception.
std::unique_ptr<Data> connect_gloo(const DataOptions& options, std::shared_ptr<Board> board);

/// The same by MPI, which is in a module of its own: opened at the first call, so that nobody else
/// needs an MPI. Throws ConfigError without it.
std::unique_ptr<Data> connect_mpi(const DataOptions& options, std::shared_ptr<Board> board);

}  // namespace lockstep::machines
