// `lockstep runs` and `lockstep compare`: which runs there are, and in what they differ.

#include <lockstep/error.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "commands.h"
#include "console.h"
#include "exit_codes.h"
#include "recipe/fields.h"
#include "recipe/words.h"
#include "run_list.h"
#include "table.h"
#include "terminal.h"

namespace lockstep::apps {
namespace {

std::string best_text(const KnownRun& run) {
  if (run.metric.empty()) return "-";
  return run.metric + format(" %.4f", run.best) + " at step " + std::to_string(run.best_step);
}

std::string kind_text(const KnownRun& run) {
  return run.recipe ? run.recipe->family + " " + run.recipe->data.kind : "unreadable recipe";
}

int list_runs(const std::string& folder, bool json) {
  const auto runs = runs_in(folder);
  if (json) {
    for (const KnownRun& run : runs)
      std::cout << nlohmann::ordered_json{{"run", run.path},
                                          {"family", run.recipe ? run.recipe->family : ""},
                                          {"step", run.step},
                                          {"seconds", run.seconds},
                                          {"metric", run.metric},
                                          {"best", run.metric.empty()
                                                       ? nullptr
                                                       : nlohmann::ordered_json(run.best)},
                                          {"best_step", run.best_step},
                                          {"metrics", run.metrics},
                                          {"devices", run.devices},
                                          {"time", run.time}}
                       .dump()
                << "\n";
    return kDone;
  }
  Rows rows = {{"run", "trains", "step", "took", "best", "devices", "saved"}};
  for (const KnownRun& run : runs)
    rows.push_back({run.path, kind_text(run), std::to_string(run.step),
                    duration_text(Seconds(run.seconds)), best_text(run),
                    run.devices.empty() ? "-" : listed(run.devices),
                    run.time == 0 ? "never" : when(run.time)});
  if (runs.empty())
    std::cerr << "there is no run in '" << folder << "'; `lockstep train RECIPE` makes one\n";
  else
    std::cout << table(rows);
  for (const KnownRun& run : runs)
    if (!run.problem.empty()) std::cerr << "note: " << run.path << ": " << run.problem << "\n";
  return kDone;
}

/// What each run has for a field; "-" where its family has no such field.
std::string value_in(const KnownRun& run, const std::string& name) {
  if (!run.recipe) return "-";
  Recipe recipe = *run.recipe;
  const auto all = sections(recipe);
  const Field* field = find_field(all, name);
  return field ? text_of(*field) : "-";
}

/// The names of all fields, in the order of the recipes.
std::vector<std::string> field_names(const std::vector<KnownRun>& runs) {
  std::vector<std::string> names;
  for (const KnownRun& run : runs) {
    if (!run.recipe) continue;
    Recipe recipe = *run.recipe;
    for (const Section& section : sections(recipe))
      for (const Field& field : section.fields)
        if (std::ranges::count(names, field.name) == 0) names.push_back(field.name);
  }
  return names;
}

Rows header(const std::string& title, const std::vector<KnownRun>& runs) {
  Rows rows = {{title}};
  for (const KnownRun& run : runs) rows.front().push_back(run.path);
  return rows;
}

template <class Value>
void add_row(Rows& rows, const std::string& name, const std::vector<KnownRun>& runs,
             const Value& value) {
  rows.push_back({name});
  for (const KnownRun& run : runs) rows.back().push_back(value(run));
}

int compare(const std::vector<std::string>& paths) {
  std::vector<KnownRun> runs;
  for (const std::string& path : paths) runs.push_back(known_run(path));
  Rows recipe = header("recipe", runs);
  for (const std::string& name : field_names(runs)) {
    std::set<std::string> values;
    for (const KnownRun& run : runs) values.insert(value_in(run, name));
    if (values.size() > 1)
      add_row(recipe, name, runs, [&](const KnownRun& run) { return value_in(run, name); });
  }
  if (recipe.size() > 1)
    std::cout << table(recipe) << "\n";
  else
    std::cout << "the recipes are the same\n\n";
  Rows results = header("result", runs);
  add_row(results, "step", runs, [](const KnownRun& run) { return std::to_string(run.step); });
  add_row(results, "took", runs,
          [](const KnownRun& run) { return duration_text(Seconds(run.seconds)); });
  add_row(results, "best", runs, best_text);
  std::set<std::string> metrics;
  for (const KnownRun& run : runs)
    for (const auto& [name, value] : run.metrics) metrics.insert(name);
  for (const std::string& name : metrics)
    add_row(results, "last " + name, runs, [&](const KnownRun& run) {
      const auto found = run.metrics.find(name);
      return found == run.metrics.end() ? "-" : format("%.4f", found->second);
    });
  add_row(results, "devices", runs,
          [](const KnownRun& run) { return run.devices.empty() ? "-" : listed(run.devices); });
  std::cout << table(results);
  return kDone;
}

}  // namespace

void add_runs(CLI::App& app, Run& run) {
  const auto folder = std::make_shared<std::string>("runs");
  const auto json = std::make_shared<bool>(false);
  CLI::App* list =
      app.add_subcommand("runs", "Lists the runs in a folder, with their best result.");
  list->add_option("folder", *folder, "the folder of runs, or one run");
  list->add_flag("--json", *json, "print a line of JSON for each run");
  list->callback([=, &run] { run = [=] { return list_runs(*folder, *json); }; });

  const auto paths = std::make_shared<std::vector<std::string>>();
  CLI::App* command =
      app.add_subcommand("compare", "Shows in what runs differ: recipes and results.");
  command->add_option("runs", *paths, "two or more runs")->required()->expected(2, 20);
  command->callback([=, &run] { run = [=] { return compare(*paths); }; });
}

}  // namespace lockstep::apps
