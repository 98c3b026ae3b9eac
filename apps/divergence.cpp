#include "divergence.h"

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "console.h"
#include "recipe/family.h"
#include "run_folder.h"
#include "terminal.h"

namespace lockstep::apps {
namespace {

/// "  lockstep resume runs/a --from best --set optimizer.lr=0.0005   # step 40: test/accuracy 0.9"
std::string command(const std::string& run, const std::string& from, const std::string& change,
                    const ListedCheckpoint& listed) {
  const std::string metrics = line_of(listed.manifest.metrics);
  return "  lockstep resume " + run + from + " --set " + change + "   # from step " +
         std::to_string(listed.manifest.progress.step) + (metrics.empty() ? "" : ": " + metrics) +
         "\n";
}

/// The step that failed, where it is known.
std::int64_t failed_step(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const TowerError& failed) {
    return failed.step;
  } catch (...) {
    return std::numeric_limits<std::int64_t>::max();
  }
}

}  // namespace

std::string advice_after_divergence(const std::string& run, const Recipe& recipe,
                                    const std::exception_ptr& error) {
  const std::string smaller = "optimizer.lr=" + format("%.3g", recipe.optimizer.lr / 2);
  std::string text =
      "The training has diverged: its last steps lead there again, so they were not saved.\n";
  auto listed = list_checkpoints(checkpoints_of(run));
  const auto spoilt = std::erase_if(listed, [&](const ListedCheckpoint& found) {
    return found.manifest.progress.step >= failed_step(error);
  });
  if (spoilt > 0)
    text += "The newest checkpoint leads straight there: its weights are spoilt already.\n";
  if (listed.empty())
    return text + "There is no checkpoint to go back to. Begin anew" +
           (spoilt > 0 ? " in another --run-dir," : "") + " with a smaller learning rate (" +
           smaller + "), a longer schedule.warm_up, or optimizer.clip=1.\n";
  const auto sets_goal = [&](const ListedCheckpoint& found) {
    for (const auto& [name, value] : found.manifest.metrics)
      if (name.ends_with("/" + recipe.evaluate.metric) && std::isfinite(value))
        return metric_of(recipe).higher_is_better ? value : -value;
    return -std::numeric_limits<double>::infinity();
  };
  const auto best = std::ranges::max_element(listed, {}, sets_goal);
  text += "Go back, and train more carefully from there:\n";
  if (std::isfinite(sets_goal(*best))) text += command(run, " --from best", smaller, *best);
  const std::int64_t last = listed.back().manifest.progress.step;
  if (!std::isfinite(sets_goal(*best)) || &*best != &listed.back())
    text +=
        command(run, spoilt > 0 ? " --from " + std::to_string(last) : "", smaller, listed.back());
  return text + "A longer schedule.warm_up, or optimizer.clip=1, helps too.\n";
}

}  // namespace lockstep::apps
