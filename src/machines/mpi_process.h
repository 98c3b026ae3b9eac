#pragma once

#include <mpi.h>

#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <queue>

#include "machines/data.h"

namespace lockstep::machines {

/// One transfer by MPI. The bytes are its own: what MPI has begun cannot be taken back, and the
/// caller's may go at any time.
struct MpiLetter {
  MPI_Comm group = MPI_COMM_NULL;
  bool sends = false;
  int other = 0;
  std::uint32_t tag = 0;
  std::unique_ptr<std::byte[]> bytes;
  std::size_t size = 0;
  std::vector<MPI_Request> parts = {};  // touched by the thread only
  // Guarded by the mutex of MpiProcess:
  bool done = false;
  std::string error = "";
};

/// The MPI of this process. One thread makes all calls: it is always there to let transfers get on,
/// and whoever waits can stop waiting.
class MpiProcess {
 public:
  /// There is one. It begins with the first call and is never taken apart, because MPI can be
  /// initialised once; when the program ends it is finalised, unless machines are lost.
  static MpiProcess& get();

  struct Place {
    int rank = 0;
    int size = 0;
  };

  /// This process's in MPI_COMM_WORLD, which is initialised where it is not. All machines call it.
  /// Throws ConfigError when this MPI cannot be used, a std::exception at the deadline and on
  /// trouble.
  Place place(Clock::time_point deadline, Board& board);

  /// A new group of all processes of MPI_COMM_WORLD, which call it too. Throws as place().
  MPI_Comm join(Clock::time_point deadline, Board& board);

  void begin(const std::shared_ptr<MpiLetter>& letter);

  /// Whether the letter has arrived, or has gone out; false as soon as `over` is set.
  bool wait(const MpiLetter& letter, const bool& over);

  /// Sets `over`, which wait() looks at, and gives up what the group is to receive.
  void abort(MPI_Comm group, bool& over);

 private:
  MpiProcess();
  void run();
  void initialise();
  void start(const std::shared_ptr<MpiLetter>& letter);
  bool get_on(std::list<std::shared_ptr<MpiLetter>>& letters);
  void end(MpiLetter& letter, const std::string& error);
  void finalise();

  /// Waits until the thread has done it.
  void on_thread(const std::function<void()>& task, Clock::time_point deadline, Board& board);

  std::mutex mutex_;
  std::condition_variable tasks_changed_;
  std::condition_variable done_;
  // Guarded by mutex_:
  std::queue<std::function<void()>> tasks_;
  bool all_answer_ = false;  // the others, as far as is known

  // Touched by the thread only:
  bool ours_ = false;  // initialised here
  std::uint32_t largest_tag_ = 32767;
  std::list<std::shared_ptr<MpiLetter>> under_way_;
  std::list<std::shared_ptr<MpiLetter>> given_up_;  // nobody waits for them any more
};

}  // namespace lockstep::machines
