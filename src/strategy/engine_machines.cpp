#include <algorithm>

#include "collective/machine_plan.h"
#include "collective/spread_work.h"
#include "strategy/agreement.h"
#include "strategy/engine.h"
#include "strategy/step_letter.h"

namespace lockstep::strategy {
namespace {

constexpr const char* kSameProgram =
    "Give all machines the same program, recipe and data, and CPUs of one kind. CPUs of one maker "
    "compute the same bits with the instruction sets that all have: `lockstep train --level`.";

}  // namespace

/// Before the first step: all that decides on the result must be the same on all machines.
void Engine::compare_machines() {
  Statements own = program_statements(options_.where.instructions);
  std::ranges::move(method_statements(options_.method), std::back_inserter(own));
  std::string names;
  for (const arena::Seat* seat : map_.seats) names += seat->name + " ";
  own.emplace_back("the model's parameters", names);
  require_agreement(*options_.where.machines, own, kSameProgram);
}

void Engine::note_traffic() {
  std::vector<collective::Shares> shares;
  for (const ShardRange& range : towers_.ranges()) shares.push_back({range.first, range.end});
  std::int64_t bytes = 0;
  for (const torch::Tensor& flat : replicas_.parameters(replicas_.first()))
    bytes += static_cast<std::int64_t>(flat.nbytes());
  notes_.add(collective::describe_traffic(
      collective::MachinePlan(roster().towers, shares, options_.method.shards), bytes));
}

/// All machines are at the same call, at the same step, with the same weights. After a step that
/// failed on one of them they make a new group first.
void Engine::agree(const char* call) {
  if (!options_.where.machines) return;
  Machines& machines = *options_.where.machines;
  if (const auto trouble = machines.trouble()) {
    if (!trouble->lost.empty()) throw MachinesError(*trouble);  // until load()
    machines.regroup();
  }
  if (machines.generation() != roster().generation) towers_.plan_anew(machines.generation());
  if (machines.size() != std::ssize(roster().towers))
    throw ConfigError(
        "a machine is gone, and with it a part of the optimizer's slots: load a state, to go on "
        "with those who are left.");
  require_agreement(machines,
                    {{"the call", std::string(call) + " at step " + std::to_string(steps_)},
                     {"the model's weights", written_ ? weights() : "unchanged"}},
                    "Every machine runs the same program: call the same functions in the same "
                    "order on all of them, and write the same values to the model.");
  written_ = false;
}

/// After load(): the group of those who are left, with towers of their own.
void Engine::join_group() {
  if (!options_.where.machines) return;
  Machines& machines = *options_.where.machines;
  if (machines.trouble()) machines.regroup();
  if (machines.generation() == roster().generation) return;
  torn_.mark();  // fresh slots
  towers_.make(replicas_.places());
}

/// Parameters and buffers, as a fingerprint.
std::string Engine::weights() const {
  Flats all = replicas_.parameters(replicas_.first());
  const Replica& shown = replicas_[replicas_.first()];
  all.insert(all.end(), shown.buffers.begin(), shown.buffers.end());
  for (const arena::Entry& entry : shown.tensors.frozen) all.push_back(entry.tensor);
  return fingerprint(all);
}

/// It counts when all machines have done so.
void Engine::copy_to_neighbour() {
  neighbours_->copy(state_of(replicas_[replicas_.first()].tensors), towers_);
  copied_ = true;
}

/// Whether this machine can go on after a failure. Devices that are gone are retired.
bool Engine::outlives(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const MachinesError&) {
    return true;
  } catch (const TowerError& error) {
    if (!is_device_failure(error.cause)) return error.cause && outlives(error.cause);
    if (!retire(replicas_, towers_, {error.device})) return false;
    notes_.add(std::string(error.what()) + ". The other devices go on without it.");
    return true;
  } catch (...) {
    return false;
  }
}

/// The state before the step that failed, with devices that are gone retired: load() makes the
/// towers anew. Nothing when it cannot be put together.
std::optional<State> Engine::rescue(const std::exception_ptr& failure) {
  if (!neighbours_) return std::nullopt;
  const bool able = !averaged_ && outlives(failure);
  options_.where.machines->regroup();
  auto rescued = neighbours_->put_together(able);
  if (!rescued) return std::nullopt;
  State state = std::move(rescued->state);
  for (std::size_t i = 0; i < slots(); ++i)
    std::ranges::move(named(rescued->kept[i], map_.layouts, slot_naming(towers_.made_with(), i)),
                      std::back_inserter(state.slots));
  if (options_.method.moving_average) state.averages = named(rescued->kept.back(), map_.layouts);
  return state;
}

/// What all shards made of the buffers, in shard order; with several machines the mean of that,
/// which each of them has made a part of. On the thread of the first tower here, the one that talks
/// to other machines.
std::vector<Flats> Engine::buffers_of_all() {
  std::vector<Flats> own;
  for (const Tower& tower : towers_)
    own.insert(own.end(), tower.buffers.begin(), tower.buffers.end());
  if (!options_.where.machines || replicas_.buffer_layouts().empty()) return own;
  Flats means = collective::spread_work(*options_.where.machines, own, replicas_.buffer_layouts(),
                                        Replicas::mean_of_buffers);
  if (means.empty()) return {};
  return {std::move(means)};
}

/// Afterwards the result has what the towers of all machines brought, in order of their ranks.
void Engine::gather_results(StepResult& result) {
  Machines& machines = *options_.where.machines;
  base::Letter mine;
  mine.put(result.notes.size());
  for (const std::string& note : result.notes) mine.put(note);
  mine.put(result.towers.size());
  for (std::size_t i = 0; i < result.towers.size(); ++i)
    put_news(mine, {result.towers[i], towers_.begin()[i].results});
  BatchResults results;
  std::vector<TowerReport> towers;
  std::vector<std::string> notes = result.notes;
  for (int rank = 0; const Bytes& bytes : machines.all_gather(mine.bytes())) {
    base::LetterReader letter(bytes);
    for (auto left = letter.get<std::size_t>(); left > 0; --left)
      if (std::string note = letter.text();
          std::ranges::find(result.notes, note) == result.notes.end())
        notes.push_back(machines.name(rank) + ": " + note);
    for (auto left = letter.get<std::size_t>(); left > 0; --left) {
      TowerNews news = get_news(letter);
      news.report.device = machines.name(rank) + "/" + news.report.device;
      results.add(news.report.rows, news.results);
      towers.push_back(std::move(news.report));
    }
    ++rank;
  }
  result.towers = std::move(towers);
  result.notes = std::move(notes);
  results.put_into(result);
}

std::vector<std::string> Engine::all_results(const std::vector<std::string>& own) {
  base::Letter mine;
  mine.put(own.size());
  for (const std::string& result : own) mine.put(result);
  std::vector<std::vector<std::string>> all;
  for (const Bytes& bytes : options_.where.machines->all_gather(mine.bytes())) {
    base::LetterReader letter(bytes);
    auto& theirs = all.emplace_back(letter.get<std::size_t>());
    for (std::string& result : theirs) result = letter.text();
  }
  std::size_t fewest = own.size();
  for (const auto& theirs : all) fewest = std::min(fewest, theirs.size());
  std::vector<std::string> results;
  for (std::size_t i = 0; i < fewest; ++i) results.push_back(std::move(all[i % all.size()][i]));
  return results;
}

ShardRange Engine::share() const {
  const Ranges& ranges = towers_.ranges();
  const auto first = static_cast<std::size_t>(roster().first);
  const auto count =
      static_cast<std::size_t>(roster().towers[static_cast<std::size_t>(roster().machine)]);
  return {ranges[first].first, ranges[first + count - 1].end};
}

}  // namespace lockstep::strategy
