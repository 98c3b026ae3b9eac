#include "divergence.h"

#include <lockstep/checkpoint.h>

#include <algorithm>
#include <cmath>
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

}  // namespace

std::string advice_after_divergence(const std::string& run, const Recipe& recipe) {
  const std::string smaller = "optimizer.lr=" + format("%.3g", recipe.optimizer.lr / 2);
  std::string text =
      "The training has diverged: its last steps lead there again, so they were not saved.\n";
  const auto listed = list_checkpoints(checkpoints_of(run));
  if (listed.empty())
    return text +
           "There is no checkpoint to go back to. Begin anew with a smaller learning rate (" +
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
  if (!std::isfinite(sets_goal(*best)) || &*best != &listed.back())
    text += command(run, "", smaller, listed.back());
  return text + "A longer schedule.warm_up, or optimizer.clip=1, helps too.\n";
}

}  // namespace lockstep::apps
