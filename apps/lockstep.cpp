// The program `lockstep`. Exit codes are in exit_codes.h.

#include <lockstep/error.h>

#include <iostream>

#include "commands.h"
#include "completion.h"
#include "exit_codes.h"

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
  } catch (const TowerError& error) {
    return code_of(error.cause);
  } catch (...) {
    return apps::kFailed;
  }
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
    apps::add_inspect(app, run);
    apps::add_export(app, run);
    apps::add_devices(app, environment, run);
    apps::add_completion(app, run);
    app.parse(argc, argv);
    return run();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? apps::kDone : apps::kUserError;
  } catch (const std::exception& error) {
    std::cerr << "lockstep: " << error.what() << "\n";
    return code_of(std::current_exception());
  }
}
