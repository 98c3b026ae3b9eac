#pragma once

// A small HTTP server for one Service: a page at /, and its JSON API.

#include <functional>
#include <string>

#include "serve/service.h"

namespace lockstep::apps {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;          ///< 0: any that is free
  int parallel = 8;         ///< connections that are served at a time
  int most_megabytes = 16;  ///< of a request
};

/// Serves until `stop` is true; `ready` is told the port when it listens. Throws ConfigError when
/// it cannot listen there.
void serve_http(Service& service, const ServerOptions& options,
                const std::function<void(int port)>& ready, const std::function<bool()>& stop);

/// The page: HTML, with all that it needs in it.
const char* served_page();

}  // namespace lockstep::apps
