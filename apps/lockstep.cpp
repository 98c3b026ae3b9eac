// The program `lockstep`. Exit codes are in exit_codes.h.

#include <lockstep/error.h>
#include <lockstep/machines.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "commands.h"
#include "completion.h"
#include "exit_codes.h"
#include "recipe/words.h"

namespace {

using namespace lockstep;

/// Files and fields are the user's to put right; what a tower threw may be too.
int code_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const ConfigError&) {
    return apps::kUserError;
  } catch (const IoError&) {
    return apps::kUserError;
  } catch (const CorruptFile&) {
    return apps::kUserError;
  } catch (const std::filesystem::filesystem_error&) {
    return apps::kUserError;
  } catch (const TowerError& error) {
    return code_of(error.cause);
  } catch (const MachinesError& error) {
    return error.trouble.lost.empty() ? apps::kFailed : apps::kMachineLost;
  } catch (...) {
    return apps::kFailed;
  }
}

/// With a full stop, unless it ends with a question.
std::string sentence(const std::string& text) { return text.ends_with('?') ? text : text + "."; }

/// What an exception says, without LibTorch's stack, and with what to do about memory.
std::string told(std::string what) {
  what.resize(std::min(what.size(), what.find("\nframe #")));
  while (what.ends_with('\n')) what.pop_back();
  if (what.find("can't allocate memory") != what.npos || what.find("std::bad_alloc") != what.npos)
    what +=
        "\nThat is more memory than there is. More shards (one is computed at a time on each "
        "device), a smaller data.batch, smaller images or texts, or a smaller model need less.";
  return what;
}

/// CLI11 does not say which command it did not know.
void check_command(const CLI::App& app, const std::string& name) {
  if (name.starts_with('-')) return;
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  if (std::ranges::find(names, name) == names.end())
    throw ConfigError("there is no command '" + name + "'" +
                      sentence(apps::did_you_mean(name, names)) +
                      " There are: " + apps::listed(names) + ".");
}

/// Throws ConfigError for a flag that the chosen command does not have, with the nearest one.
void check_flags(const CLI::App& app, int count, char** arguments) {
  const auto chosen = app.get_subcommands();
  if (chosen.empty()) return;
  std::vector<std::string> flags;
  for (const CLI::Option* option : chosen.front()->get_options())
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  for (const std::string& argument : std::vector<std::string>(arguments + 2, arguments + count)) {
    const std::string flag = argument.substr(0, argument.find('='));
    if (!flag.starts_with("--") || std::ranges::count(flags, flag) > 0) continue;
    const std::string name = "lockstep " + chosen.front()->get_name();
    throw ConfigError(name + " has no flag " + flag + sentence(apps::did_you_mean(flag, flags)) +
                      " `" + name + " --help` lists them.");
  }
}

/// `lockstep help train` is `lockstep train --help`.
std::vector<std::string> without_help_command(int count, char** arguments) {
  std::vector<std::string> words(arguments + 1, arguments + count);
  if (words.empty()) return {"--help"};
  if (words.front() != "help") return words;
  words.erase(words.begin());
  words.emplace_back("--help");
  return words;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains an unchanged LibTorch model on every device of a machine.", "lockstep");
  app.option_defaults()->always_capture_default();
  app.require_subcommand(1);
  app.set_version_flag("--version", "lockstep " LOCKSTEP_VERSION);
  app.footer("`lockstep COMMAND --help` shows the flags of a command.");
  apps::Run run;
  try {
    const apps::Environment environment = apps::read_environment();
    apps::add_train(app, environment, run);
    apps::add_resume(app, environment, run);
    apps::add_evaluate(app, environment, run);
    apps::add_verify(app, environment, run);
    apps::add_scaling(app, environment, run);
    apps::add_family_commands(app, run);
    apps::add_serve(app, run);
    apps::add_inspect(app, run);
    apps::add_export(app, run);
    apps::add_runs(app, run);
    apps::add_init(app, run);
    apps::add_recipes(app, run);
    apps::add_devices(app, environment, run);
    apps::add_completion(app, run);
    std::vector<std::string> words = without_help_command(argc, argv);
    check_command(app, words.front());
    std::ranges::reverse(words);  // as CLI11 takes them
    app.parse(words);
    return run();
  } catch (const CLI::ExtrasError& error) {
    try {
      check_flags(app, argc, argv);
    } catch (const ConfigError& unknown) {
      std::cerr << "lockstep: " << unknown.what() << "\n";
      return apps::kUserError;
    }
    app.exit(error);
    return apps::kUserError;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // help, or the version
    const auto chosen = app.get_subcommands();
    const std::string name = "lockstep" + (chosen.empty() ? "" : " " + chosen.front()->get_name());
    std::cerr << name << ": " << error.what() << "; `" << name << " --help` shows its flags\n";
    return apps::kUserError;
  } catch (const std::exception& error) {
    std::cerr << "lockstep: " << told(error.what()) << "\n";
    return code_of(std::current_exception());
  }
}
