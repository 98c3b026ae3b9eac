#include "serve/http_server.h"

#include <httplib.h>
#include <lockstep/error.h>

#include <charconv>
#include <chrono>
#include <optional>
#include <thread>

namespace lockstep::apps {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void send(httplib::Response& response, int status, const Json& json) {
  response.status = status;
  response.set_content(text_of(json), "application/json");
}

/// A page on another site must not reach a server on this machine by a name of its own.
bool is_own_host(const httplib::Request& request, const std::string& host) {
  std::string named = request.get_header_value("Host");
  named = named.substr(
      0, named.rfind(':') == named.npos || named.back() == ']' ? named.size() : named.rfind(':'));
  return named == host || named == "localhost" || named == "127.0.0.1" || named == "[::1]";
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

/// The first part of a form, or the body as it is, whatever its type: curl calls a picture a form
/// too. Nothing when it is too large or ends early; then the response has its status.
std::optional<std::string> content_of(const httplib::Request& request, httplib::Response& response,
                                      const httplib::ContentReader& read, std::size_t most) {
  std::string content;
  int parts = 0;
  const auto take = [&](const char* data, std::size_t length) {
    if (parts <= 1) content.append(data, length);
    if (content.size() > most) response.status = 413;
    return content.size() <= most;
  };
  const auto next_part = [&](const httplib::MultipartFormData&) { return ++parts > 0; };
  const bool whole = request.is_multipart_form_data() ? read(next_part, take) : read(take);
  if (!whole) return std::nullopt;
  return content;
}

void answer(Service& service, const httplib::Request& request, const std::string& content,
            httplib::Response& response) {
  const std::map<std::string, std::string> options(request.params.begin(), request.params.end());
  const auto refuse = [&](int status, const std::exception& problem) {
    send(response, status, {{"error", problem.what()}});
  };
  try {
    send(response, 200, service.answer(content, options));
  } catch (const Busy& problem) {
    refuse(503, problem);
  } catch (const TooLate& problem) {
    refuse(504, problem);
  } catch (const ConfigError& problem) {
    refuse(400, problem);
  } catch (const CorruptFile& problem) {
    refuse(400, problem);
  } catch (const std::exception& problem) {
    refuse(500, problem);
  }
}

std::size_t most_bytes(const ServerOptions& options) {
  return static_cast<std::size_t>(options.most_megabytes) << 20U;
}

void set_limits(httplib::Server& server, const ServerOptions& options) {
  constexpr std::time_t kSeconds = 10;  // for a client to send or to take something
  server.set_payload_max_length(most_bytes(options));
  server.set_read_timeout(kSeconds);
  server.set_write_timeout(kSeconds);
  server.set_keep_alive_timeout(2);
  // Without SO_REUSEPORT, by which two servers would share a port and nobody would know.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.new_task_queue = [parallel = options.parallel] {
    return new httplib::ThreadPool(static_cast<std::size_t>(parallel));
  };
}

void add_routes(httplib::Server& server, Service& service, const ServerOptions& options) {
  server.set_pre_routing_handler([=](const httplib::Request& request, httplib::Response& response) {
    if (!is_loopback(options.host) || is_own_host(request, options.host))
      return httplib::Server::HandlerResponse::Unhandled;
    send(response, 403, {{"error", "this server answers to 127.0.0.1 and localhost only"}});
    return httplib::Server::HandlerResponse::Handled;
  });
  server.Get("/", [](const httplib::Request&, httplib::Response& response) {
    response.set_header("Content-Security-Policy",
                        "default-src 'self' 'unsafe-inline'; img-src 'self' blob:");
    response.set_content(served_page(), "text/html; charset=utf-8");
  });
  server.Get("/api/model", [&](const httplib::Request&, httplib::Response& response) {
    Json json = {{"service", service.name()}};
    json.update(service.about());
    send(response, 200, json);
  });
  server.Post("/api/" + service.name(),
              [&service, most = most_bytes(options)](const httplib::Request& request,
                                                     httplib::Response& response,
                                                     const httplib::ContentReader& read) {
                if (const auto content = content_of(request, response, read, most))
                  answer(service, request, *content, response);
              });
  server.set_error_handler([=](const httplib::Request& request, httplib::Response& response) {
    if (!response.body.empty()) return;
    const std::string problem =
        response.status == 413
            ? "a request may have " + std::to_string(options.most_megabytes) + " MiB at most"
            : "there is nothing at " + request.method + " " + request.path + ": see docs/serve.md";
    send(response, response.status, {{"error", problem}});
  });
}

}  // namespace

int option_of(const std::map<std::string, std::string>& options, const std::string& name,
              int otherwise, int low, int high) {
  const auto found = options.find(name);
  if (found == options.end()) return otherwise;
  int number = 0;
  const char* end = found->second.data() + found->second.size();
  const auto read = std::from_chars(found->second.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end || number < low || number > high)
    throw ConfigError(name + " has to be a whole number from " + std::to_string(low) + " to " +
                      std::to_string(high) + ".");
  return number;
}

void serve_http(Service& service, const ServerOptions& options,
                const std::function<void(int port)>& ready, const std::function<bool()>& stop) {
  httplib::Server server;
  set_limits(server, options);
  add_routes(server, service, options);
  const int port = options.port == 0 ? server.bind_to_any_port(options.host)
                   : server.bind_to_port(options.host, options.port) ? options.port
                                                                     : -1;
  if (port < 0)
    throw ConfigError("cannot listen on " + options.host + ":" + std::to_string(options.port) +
                      ": another program may be there, or the address is not this machine's. Give "
                      "another --port (0: any that is free) or --host.");
  std::jthread listener([&] { server.listen_after_bind(); });
  ready(port);
  while (!stop()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  server.stop();
}

}  // namespace lockstep::apps
