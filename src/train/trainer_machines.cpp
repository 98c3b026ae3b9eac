#include <lockstep/checkpoint.h>
#include <lockstep/error.h>

#include "base/letter.h"
#include "train/trainer_impl.h"

// What the trainers of several machines tell each other. Whatever depends on time, signals or files
// is decided by the first.

namespace lockstep {

Trainer::Impl::Next Trainer::Impl::decide() {
  Next next{.ending = why_end()};
  if (decides()) {
    next.evaluate = due(options_.evaluate, progress_.evaluated);
    next.save = save_due();
  }
  return agreed(next);
}

/// The first machine's; but a signal to any of them stops all.
Trainer::Impl::Next Trainer::Impl::agreed(Next own) {
  if (!machines_) return own;
  if (const auto trouble = machines_->trouble(); trouble && trouble->lost.empty())
    machines_->regroup();  // after a step that failed
  base::Letter mine;
  mine.put(own.evaluate);
  mine.put(own.save);
  mine.put(own.ending.has_value());
  mine.put(own.ending.value_or(Ending::done));
  Next next;
  bool first = true;
  for (const Bytes& bytes : machines_->all_gather(mine.bytes())) {
    base::LetterReader letter(bytes);
    Next theirs{.evaluate = letter.get<bool>(), .save = letter.get<bool>()};
    if (letter.get<bool>()) theirs.ending = letter.get<Ending>();
    if (first) next = theirs;
    if (theirs.ending == Ending::stopped) next.ending = Ending::stopped;
    first = false;
  }
  return next;
}

bool Trainer::Impl::everywhere(bool own) {
  if (!machines_) return own;
  const std::byte mine{own};
  bool all = true;
  for (const Bytes& theirs : machines_->all_gather({&mine, 1}))
    all = all && theirs.at(0) != std::byte{0};
  return all;
}

/// When the first has saved: a launcher that sees another process end may kill it before.
void Trainer::Impl::leave_together() {
  try {
    everywhere(true);
  } catch (const MachinesError&) {  // who is gone now is not missed
  }
}

/// After the loss of a machine, or of a device on one of several: those who are left go on. False
/// when that is not what failed, or not wanted, or there is nothing to go on from. What fails
/// meanwhile takes the place of `failure`, and they try again.
bool Trainer::Impl::go_on_without(std::exception_ptr& failure) {
  for (;;) {
    const auto trouble = machines_ ? machines_->trouble() : std::nullopt;
    if (!trouble) return false;
    if (!trouble->lost.empty() && options_.on_machine_failure == OnMachineFailure::stop)
      return false;
    const std::int64_t group = machines_->generation();
    try {
      return replay(*trouble, failure) || repeat(*trouble);
    } catch (const std::exception&) {
      if (machines_->generation() == group) return false;  // the first machine is gone
      failure = std::current_exception();
    }
  }
}

/// Takes the step that failed again, from what machines have kept of each other.
bool Trainer::Impl::replay(const Trouble& trouble, const std::exception_ptr& failure) {
  const auto state = job_.strategy().rescue(failure);
  if (!state) return false;
  job_.strategy().load(*state);
  job_.seek(progress_.input);
  tell_of_machines(trouble, {.step = progress_.step, .replayed = true});
  return true;
}

/// Goes on from the newest checkpoint.
bool Trainer::Impl::repeat(const Trouble& trouble) {
  if (trouble.lost.empty() || !saves_) return false;
  if (machines_->trouble()) machines_->regroup();
  std::optional<FoundCheckpoint> newest;
  if (saver_) {
    tell_of_saves(/*wait=*/true);
    std::vector<std::string> problems;
    newest = load_newest(options_.folder, problems);
  }
  newest = from_first(*machines_, newest);
  if (!newest) return false;
  const std::int64_t before = progress_.step;
  take_over(*newest);
  window_.clear();
  saved_step_ = progress_.step;
  if (saver_) saver_->set_aside_after(progress_.step);
  tell_of_machines(trouble, {.step = progress_.step, .repeated = before - progress_.step});
  return true;
}

/// A device that is lost is in the notes of the next report.
void Trainer::Impl::tell_of_machines(const Trouble& trouble, MachinesLeft left) {
  clock_ = now();
  if (trouble.lost.empty()) return;
  left.lost = trouble.lost;
  left.devices = job_.strategy().device_names();
  tell(&Observer::machines_lost, left);
}

}  // namespace lockstep
