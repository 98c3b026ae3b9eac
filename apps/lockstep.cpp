// The program `lockstep`. Exit codes: 0 done; 1 failed; 2 the user can put it right.

#include <lockstep/error.h>

#include <iostream>

#include "commands.h"

int main(int argc, char** argv) {
  using namespace lockstep;
  CLI::App app("Trains an unchanged LibTorch model on every device of a machine.", "lockstep");
  app.option_defaults()->always_capture_default();
  app.require_subcommand(1);
  app.footer("`lockstep COMMAND --help` shows the flags of a command.");
  apps::Run run;
  try {
    apps::add_devices(app, apps::read_environment(), run);
    app.parse(argc, argv);
    return run();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const ConfigError& error) {
    std::cerr << "lockstep: " << error.what() << "\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "lockstep: " << error.what() << "\n";
    return 1;
  }
}
