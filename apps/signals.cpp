#include "signals.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace lockstep::apps {
namespace {

volatile std::sig_atomic_t came = 0;

void note(int signal) {
  if (came != 0) _exit(128 + signal);
  const int before = errno;
  came = 1;
  constexpr char kText[] = "\nstopping; once more to stop at once\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kText, sizeof kText - 1);
  errno = before;
}

}  // namespace

void watch_signals() {
  struct sigaction action = {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGUSR1, &action, nullptr);  // mpirun passes it on, and kills nobody
  std::signal(SIGPIPE, SIG_IGN);         // nobody reads what is shown: no reason to lose a training
}

bool signalled() { return came != 0; }

}  // namespace lockstep::apps
