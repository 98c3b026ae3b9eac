#include "machines/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <lockstep/error.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

namespace lockstep::machines {
namespace {

/// In the host's byte order.
std::optional<std::uint32_t> ipv4(const std::string& text) {
  in_addr address = {};
  if (inet_pton(AF_INET, text.c_str(), &address) != 1) return std::nullopt;
  return ntohl(address.s_addr);
}

bool is_loopback(std::uint32_t address) { return address >> 24U == 127; }

/// The first IPv4 address that a name has here.
std::optional<std::uint32_t> ipv4_of_name(const std::string& name) {
  addrinfo wanted = {};
  wanted.ai_family = AF_INET;
  addrinfo* found = nullptr;
  if (getaddrinfo(name.c_str(), nullptr, &wanted, &found) != 0) return std::nullopt;
  sockaddr_in address = {};
  std::memcpy(&address, found->ai_addr, sizeof address);
  freeaddrinfo(found);
  return ntohl(address.sin_addr.s_addr);
}

/// The IPv4 addresses of networks that are up.
std::vector<std::string> own_addresses() {
  ifaddrs* list = nullptr;
  std::vector<std::string> found;
  if (getifaddrs(&list) != 0) return found;
  for (const ifaddrs* each = list; each; each = each->ifa_next) {
    const bool up = (each->ifa_flags & IFF_UP) != 0 && (each->ifa_flags & IFF_LOOPBACK) == 0;
    if (!up || !each->ifa_addr || each->ifa_addr->sa_family != AF_INET) continue;
    char text[INET_ADDRSTRLEN] = "";
    sockaddr_in address = {};
    std::memcpy(&address, each->ifa_addr, sizeof address);
    found.emplace_back(inet_ntop(AF_INET, &address.sin_addr, text, sizeof text));
  }
  freeifaddrs(list);
  return found;
}

}  // namespace

Endpoint reachable_by_others(const Endpoint& asked) {
  if (ipv4(asked.host) == 0U || asked.host == "::")
    throw ConfigError("the first machine would listen on all its addresses at " + asked.text() +
                      ": write the one that the other machines reach");
  if (ipv4(asked.host) || asked.host == "localhost") return asked;
  const std::optional<std::uint32_t> address = ipv4_of_name(asked.host);
  if (!address || !is_loopback(*address)) return asked;
  const std::vector<std::string> own = own_addresses();
  if (own.size() == 1) return {.host = own.front(), .port = asked.port};
  std::string list;
  for (const std::string& each : own) list += (list.empty() ? "" : ", ") + each;
  throw ConfigError("on this machine the name " + asked.host +
                    " means a loopback address, which others cannot reach: write the address "
                    "instead of the name, in LOCKSTEP_FIRST or --machines" +
                    (own.empty() ? "" : " (this machine has " + list + ")"));
}

bool is_own_address(const std::string& host) {
  addrinfo wanted = {};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), "0", &wanted, &found) != 0) return false;
  const Socket socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool own = socket && bind(socket.handle(), found->ai_addr, found->ai_addrlen) == 0;
  freeaddrinfo(found);
  return own;
}

}  // namespace lockstep::machines
