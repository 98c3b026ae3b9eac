#include "machine_flags.h"

#include <lockstep/error.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <vector>

#include "environment.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;

/// "0/3" as its two numbers.
std::pair<int, int> parse_machine(const std::string& text) {
  int machine = -1, machines = 0;
  const char* const end = text.data() + text.size();
  auto [slash, wrong] = std::from_chars(text.data(), end, machine);
  if (wrong == std::errc() && slash != end && *slash == '/')
    if (const auto [rest, bad] = std::from_chars(slash + 1, end, machines);
        rest == end && bad == std::errc() && machine >= 0 && machine < machines)
      return {machine, machines};
  throw ConfigError("--machine " + text +
                    ": give its number, from 0, and how many there are: --machine 0/3.");
}

std::optional<MachinesOptions> options_of(const MachineFlags& flags) {
  auto options = launched_machines(flags.first);
  if (flags.machine.empty()) {
    if (!options && !flags.first.empty())
      throw ConfigError("--machines " + flags.first +
                        " says where the first machine is; --machine 0/3 says which this one is, "
                        "unless mpirun, srun or torchrun does.");
  } else {
    if (flags.first.empty())
      throw ConfigError("--machine " + flags.machine +
                        " needs --machines HOST:PORT, the address of the first machine.");
    if (!options) options.emplace();
    std::tie(options->machine, options->machines) = parse_machine(flags.machine);
    options->secret = machines_secret();
  }
  if (!options) return std::nullopt;
  if (!flags.first.empty()) options->first = flags.first;
  if (!flags.address.empty()) options->address = flags.address;
  options->silence = Seconds(flags.silence);
  options->start = Seconds(flags.start);
  return options;
}

/// Names and sizes of what is at `path`.
std::string listing_of(const std::string& path) {
  std::vector<std::string> lines;
  std::error_code error;
  const auto add = [&](const fs::path& file) {
    std::error_code unknown;
    lines.push_back(fs::relative(file, path, unknown).string() + " " +
                    std::to_string(fs::file_size(file, unknown)));
  };
  if (fs::is_regular_file(path, error)) add(path);
  for (fs::recursive_directory_iterator next(path, error), end; !error && next != end;
       next.increment(error))
    if (next->is_regular_file(error)) add(next->path());
  std::ranges::sort(lines);
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The first line that only one of two texts has.
std::string first_other_line(const std::string& a, const std::string& b) {
  const auto [was, is] = std::ranges::mismatch(a, b);
  const std::string& longer = was == a.end() ? b : a;
  const auto at = static_cast<std::size_t>(was == a.end() ? is - b.begin() : was - a.begin());
  const std::size_t begin = longer.rfind('\n', at == 0 ? 0 : at - 1);
  const std::size_t from = begin == std::string::npos ? 0 : begin + 1;
  return longer.substr(from, longer.find('\n', at) - from);
}

void compare(Machines& machines, const std::string& what, const std::string& own,
             const std::string& advice) {
  const auto all = machines.all_gather(std::as_bytes(std::span(own)));
  for (int rank = 1; rank < machines.size(); ++rank)
    if (const std::string first = text_of(all[0]),
        other = text_of(all[static_cast<std::size_t>(rank)]);
        first != other)
      throw ConfigError(machines.name(0) + " and " + machines.name(rank) + " have different " +
                        what + ", first at '" + first_other_line(first, other) + "'. " + advice);
}

}  // namespace

void add_machine_flags(CLI::App& command, MachineFlags& flags) {
  command.add_option("--machines", flags.first,
                     "HOST:PORT of the first of several machines, which listens there. Under "
                     "mpirun, srun or torchrun it is found where it can be");
  command.add_option("--machine", flags.machine,
                     "which one this is, and how many there are: 0/3. Under a launcher, as that "
                     "says");
  command.add_option("--address", flags.address,
                     "of this machine, for data from the others; by default the one that leads to "
                     "the first machine");
  command
      .add_option("--on-machine-failure", flags.on_failure,
                  "go-on: the others load the newest checkpoint and go on, with the same result; "
                  "stop: end with exit code 4")
      ->check(CLI::IsMember({"go-on", "stop"}));
  command
      .add_option("--silence", flags.silence,
                  "seconds without a sign of life after which a machine is lost")
      ->check(CLI::Range(1.0, 3600.0));
  command.add_flag("--rejoin", flags.rejoin,
                   "a machine that was lost and is started again is taken in: all save, and go on "
                   "from there with it");
  command.add_option("--start", flags.start, "seconds to wait for all machines at the start")
      ->check(CLI::Range(1.0, 86400.0));
}

std::shared_ptr<Machines> join_machines(const MachineFlags& flags) {
  const auto options = options_of(flags);
  if (!options || options->machines == 1) return nullptr;
  return join(*options);
}

bool somebody_waits(const MachineFlags& flags, const std::shared_ptr<Machines>& machines) {
  return flags.rejoin && machines && !machines->waiting().empty();
}

bool take_in(const MachineFlags& flags, const std::shared_ptr<Machines>& machines, bool signalled) {
  if (!machines || !flags.rejoin) return false;
  const std::array own = {std::byte{somebody_waits(flags, machines)}, std::byte{signalled}};
  bool waits = false, stops = false;
  for (const Bytes& theirs : machines->all_gather(own)) {
    waits = waits || theirs.at(0) != std::byte{0};
    stops = stops || theirs.at(1) != std::byte{0};
  }
  if (!waits || stops) return false;
  machines->regroup();
  return true;
}

void compare_recipes(const std::shared_ptr<Machines>& machines, const Recipe& recipe) {
  if (!machines) return;
  compare(*machines, "recipes", print_recipe(recipe),
          "Give all machines the same recipe and --set.");
  compare(*machines, "data", listing_of(recipe.data.path),
          "Copy the same files to '" + recipe.data.path + "' on all machines.");
}

}  // namespace lockstep::apps
