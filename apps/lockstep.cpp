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

/// CLI11 does not say which command it did not know.
void check_command(const CLI::App& app, int count, char** arguments) {
  if (count < 2 || arguments[1][0] == '-') return;
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  if (std::ranges::find(names, arguments[1]) == names.end())
    throw ConfigError("there is no command '" + std::string(arguments[1]) + "'" +
                      apps::did_you_mean(arguments[1], names) +
                      ". There are: " + apps::listed(names) + ".");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains an unchanged LibTorch model on every device of a machine.", "lockstep");
  app.option_defaults()->always_capture_default();
  app.require_subcommand(1);
  app.footer("`lockstep COMMAND --help` shows the flags of a command.");
  apps::Run run;
  try {
    const apps::Environment environment = apps::read_environment();
    apps::add_train(app, environment, run);
    apps::add_evaluate(app, environment, run);
    apps::add_verify(app, environment, run);
    apps::add_scaling(app, environment, run);
    apps::add_family_commands(app, run);
    apps::add_inspect(app, run);
    apps::add_export(app, run);
    apps::add_recipes(app, run);
    apps::add_devices(app, environment, run);
    apps::add_completion(app, run);
    check_command(app, argc, argv);
    app.parse(argc, argv);
    return run();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? apps::kDone : apps::kUserError;
  } catch (const std::exception& error) {
    std::cerr << "lockstep: " << error.what() << "\n";
    return code_of(std::current_exception());
  }
}
