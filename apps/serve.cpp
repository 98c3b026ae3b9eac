// `lockstep serve`: a trained model on a small HTTP server.

#include <lockstep/error.h>

#include <iostream>
#include <memory>

#include "commands.h"
#include "exit_codes.h"
#include "family_program.h"
#include "flag_checks.h"
#include "run_folder.h"
#include "serve/http_server.h"
#include "signals.h"

namespace lockstep::apps {
namespace {

int serve(const ServeFlags& flags, const ServerOptions& options) {
  watch_signals();
  const std::string recipe = find_checkpoint(flags.path, Which::newest).checkpoint.manifest.recipe;
  if (recipe.empty())
    throw ConfigError("'" + flags.path + "' has no recipe: `lockstep train` did not write it.");
  const auto service = make_service(kept_recipe(recipe, flags.path + "'s recipe"), flags);
  std::cerr << service->about().at("about").get<std::string>() << "\n";
  serve_http(
      *service, options,
      [&](int port) {
        std::cout << "serves http://" << options.host << ":" << port << "/ until Ctrl-C"
                  << std::endl;
        if (options.host != "127.0.0.1" && options.host != "localhost")
          std::cerr << "note: everybody who reaches " << options.host
                    << " can use it: there is no password\n";
      },
      signalled);
  return kDone;
}

}  // namespace

void add_serve(CLI::App& app, Run& run) {
  const auto flags = std::make_shared<ServeFlags>();
  const auto options = std::make_shared<ServerOptions>();
  const auto timeout = std::make_shared<double>(flags->limits.timeout.count());
  CLI::App* command = app.add_subcommand(
      "serve", "Serves a trained model over HTTP: a page and a JSON API. lockstep serve RUN.");
  command->add_option("run", flags->path, "a run, its folder of checkpoints, or one checkpoint")
      ->required();
  command->add_option(
      "--host", options->host,
      "the address to listen on; 0.0.0.0: all of this machine's, without a password");
  command->add_option("--port", options->port, "0: any that is free")->check(CLI::Range(0, 65535));
  command->add_option("--parallel", options->parallel, "connections that are served at a time")
      ->check(CLI::Range(1, 256));
  command->add_option("--max-megabytes", options->most_megabytes, "most MiB of a request")
      ->check(CLI::Range(1, 1024));
  command->add_option("--timeout", *timeout, "most seconds that an answer may take")
      ->check(above_zero());
  command->add_option("--weights", flags->weights, "live, averaged, or auto: averaged if there are")
      ->check(CLI::IsMember({"auto", "live", "averaged"}));
  command->add_flag("--newest", flags->newest, "of a run, the newest checkpoint; else the best");
  command->footer(
      "API: GET /api/model; POST an image to /api/predict?top=5 or /api/detect; POST {\"text\": "
      "...} to /api/text.\nRequests that come at once are computed together.");
  command->callback([=, &run] {
    run = [=] {
      flags->limits.timeout = Seconds(*timeout);
      return serve(*flags, *options);
    };
  });
}

}  // namespace lockstep::apps
