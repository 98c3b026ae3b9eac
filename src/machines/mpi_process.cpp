#include "machines/mpi_process.h"

#include <lockstep/error.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <thread>

namespace lockstep::machines {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""us;

/// Transfers get on only while MPI is called. To look often is quick, and takes a core from those
/// who compute.
constexpr std::chrono::microseconds kShortestNap = 20us;
constexpr std::chrono::microseconds kLongestNap = 200us;

/// MPI counts with an int.
constexpr std::size_t kMostInOnePart = std::size_t{1} << 30U;

/// Empty: it went well.
std::string words_of(int result) {
  if (result == MPI_SUCCESS) return "";
  std::array<char, MPI_MAX_ERROR_STRING + 1> text = {};
  int length = 0;
  MPI_Error_string(result, text.data(), &length);
  return text.data();
}

void require(int result, const char* call) {
  if (result != MPI_SUCCESS) throw std::runtime_error(std::string(call) + ": " + words_of(result));
}

}  // namespace

MpiProcess& MpiProcess::get() {
  static MpiProcess* const process = new MpiProcess;
  static const struct AtExit {
    ~AtExit() { process->finalise(); }
  } at_exit;
  return *process;
}

/// The thread may hang in a call of MPI when another machine does: nobody waits for its end.
MpiProcess::MpiProcess() {
  std::thread([this] { run(); }).detach();
}

void MpiProcess::run() {
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);  // nanoseconds: short naps are short
  const auto has_task = [&] { return !tasks_.empty(); };
  auto nap = kShortestNap;
  std::unique_lock lock(mutex_);
  for (;;) {
    if (under_way_.empty())
      tasks_changed_.wait(lock, has_task);
    else if (tasks_changed_.wait_for(lock, nap, has_task))
      nap = kShortestNap;
    std::queue<std::function<void()>> tasks;
    tasks.swap(tasks_);
    lock.unlock();
    for (; !tasks.empty(); tasks.pop()) tasks.front()();
    nap = get_on(under_way_) ? kShortestNap : std::min(2 * nap, kLongestNap);
    get_on(given_up_);
    lock.lock();
  }
}

void MpiProcess::on_thread(const std::function<void()>& task, Clock::time_point deadline,
                           Board& board) {
  const auto ended = std::make_shared<bool>(false);
  const auto error = std::make_shared<std::exception_ptr>();
  std::unique_lock lock(mutex_);
  tasks_.push([this, task, ended, error] {
    try {
      task();
    } catch (...) {
      *error = std::current_exception();
    }
    const std::lock_guard done(mutex_);
    *ended = true;
    done_.notify_all();
  });
  tasks_changed_.notify_all();
  while (!done_.wait_for(lock, 100ms, [&] { return *ended; })) {
    lock.unlock();
    board.check();
    if (Clock::now() >= deadline)
      throw std::runtime_error("MPI does not answer: start all machines by one mpirun");
    lock.lock();
  }
  if (*error) std::rethrow_exception(*error);
}

/// Of MPI. A program that has done so itself must let several threads call it.
void MpiProcess::initialise() {
  int before = 0, after = 0, level = 0;
  require(MPI_Initialized(&before), "MPI_Initialized");
  require(MPI_Finalized(&after), "MPI_Finalized");
  if (after != 0)
    throw ConfigError("this program has finalised MPI already: machines need it to the end");
  if (before == 0) {
    require(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread");
    ours_ = true;
    require(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  } else if (!ours_) {
    require(MPI_Query_thread(&level), "MPI_Query_thread");
    if (level != MPI_THREAD_MULTIPLE)
      throw ConfigError(
          "this program has initialised MPI without MPI_THREAD_MULTIPLE, and machines call it "
          "from a thread of their own: ask for that, or do not initialise it");
  }
  int* largest = nullptr;
  int known = 0;
  require(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&largest), &known),
          "MPI_Comm_get_attr");
  if (known != 0) largest_tag_ = static_cast<std::uint32_t>(*largest);
}

MpiProcess::Place MpiProcess::place(Clock::time_point deadline, Board& board) {
  const auto place = std::make_shared<Place>();
  const auto look = [this, place] {
    initialise();
    require(MPI_Comm_rank(MPI_COMM_WORLD, &place->rank), "MPI_Comm_rank");
    require(MPI_Comm_size(MPI_COMM_WORLD, &place->size), "MPI_Comm_size");
  };
  on_thread(look, deadline, board);
  return *place;
}

MPI_Comm MpiProcess::join(Clock::time_point deadline, Board& board) {
  const auto group = std::make_shared<MPI_Comm>(MPI_COMM_NULL);
  const auto make = [group, deadline] {
    MPI_Request request = MPI_REQUEST_NULL;
    require(MPI_Comm_idup(MPI_COMM_WORLD, group.get(), &request), "MPI_Comm_idup");
    int there = 0;
    for (; there == 0 && Clock::now() < deadline; std::this_thread::sleep_for(1ms))
      require(MPI_Test(&request, &there, MPI_STATUS_IGNORE), "MPI_Test");
    if (there == 0) throw std::runtime_error("not all machines came to MPI in time");
    require(MPI_Comm_set_errhandler(*group, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  };
  on_thread(make, deadline, board);
  const std::lock_guard lock(mutex_);
  all_answer_ = true;
  return *group;
}

void MpiProcess::begin(const std::shared_ptr<MpiLetter>& letter) {
  const std::lock_guard lock(mutex_);
  tasks_.push([this, letter] { start(letter); });
  tasks_changed_.notify_all();
}

void MpiProcess::start(const std::shared_ptr<MpiLetter>& letter) {
  if (letter->tag > largest_tag_)
    return end(*letter, "this MPI's tags end at " + std::to_string(largest_tag_));
  for (std::size_t begin = 0; begin < letter->size; begin += kMostInOnePart) {
    std::byte* const bytes = letter->bytes.get() + begin;
    const int count = static_cast<int>(std::min(letter->size - begin, kMostInOnePart));
    const int tag = static_cast<int>(letter->tag);
    MPI_Request& part = letter->parts.emplace_back(MPI_REQUEST_NULL);
    const int result =
        letter->sends ? MPI_Isend(bytes, count, MPI_BYTE, letter->other, tag, letter->group, &part)
                      : MPI_Irecv(bytes, count, MPI_BYTE, letter->other, tag, letter->group, &part);
    if (result == MPI_SUCCESS) continue;
    given_up_.push_back(letter);  // parts before it are under way
    return end(*letter, words_of(result));
  }
  under_way_.push_back(letter);
}

/// Whether one of them has ended.
bool MpiProcess::get_on(std::list<std::shared_ptr<MpiLetter>>& letters) {
  return std::erase_if(letters, [this](const std::shared_ptr<MpiLetter>& letter) {
           int ended = 0;
           const int result = MPI_Testall(static_cast<int>(letter->parts.size()),
                                          letter->parts.data(), &ended, MPI_STATUSES_IGNORE);
           if (result == MPI_SUCCESS && ended == 0) return false;
           end(*letter, words_of(result));
           return true;
         }) > 0;
}

void MpiProcess::end(MpiLetter& letter, const std::string& error) {
  const std::lock_guard lock(mutex_);
  letter.done = true;
  letter.error = error;
  done_.notify_all();
}

bool MpiProcess::wait(const MpiLetter& letter, const bool& over) {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return letter.done || over; });
  if (over) return false;
  if (!letter.error.empty()) throw std::runtime_error(letter.error);
  return true;
}

/// What cannot be taken back keeps its bytes until MPI has let go of them.
void MpiProcess::abort(MPI_Comm group, bool& over) {
  const std::lock_guard lock(mutex_);
  over = true;
  all_answer_ = false;
  done_.notify_all();
  tasks_.push([this, group] {
    for (auto next = under_way_.begin(); next != under_way_.end();) {
      const auto letter = next++;
      if ((*letter)->group != group) continue;
      for (MPI_Request& part : (*letter)->parts)
        if (!(*letter)->sends && part != MPI_REQUEST_NULL) MPI_Cancel(&part);
      given_up_.splice(given_up_.end(), under_way_, letter);
    }
  });
  tasks_changed_.notify_all();
}

/// MPI waits for all others then: not while one may be lost.
void MpiProcess::finalise() {
  std::unique_lock lock(mutex_);
  if (!all_answer_) return;
  bool ended = false;
  tasks_.push([this, &ended] {
    if (ours_) MPI_Finalize();
    under_way_.clear();
    given_up_.clear();
    const std::lock_guard done(mutex_);
    ended = true;
    done_.notify_all();
  });
  tasks_changed_.notify_all();
  done_.wait(lock, [&] { return ended; });
}

}  // namespace lockstep::machines
