#include "machine_flags.h"

#include <lockstep/error.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <functional>
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

void check_transport(const MachineFlags& flags) {
  if (flags.transport != "mpi") return;
  if (flags.rejoin || (flags.failure_asked && flags.on_failure != "stop"))
    throw ConfigError(
        "--transport mpi: MPI ends a job that loses a machine, so nobody can go on or come back. "
        "Leave out --rejoin, give --on-machine-failure stop, and start the job again; or take "
        "--transport gloo.");
}

std::optional<MachinesOptions> options_of(const MachineFlags& flags) {
  check_transport(flags);
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
  if (flags.transport == "mpi") options->transport = MachineTransport::mpi;
  return options;
}

// What is read of the data, to compare it: 128 MiB at the most, of 2048 files at the most.
constexpr std::uint64_t kPiece = 65536;
constexpr std::uint64_t kPieces = 2048;

/// A fingerprint of up to so many pieces of a file: all of it, or from its begin to its end at even
/// distances.
std::string content_of(const fs::path& file, std::uint64_t size, std::uint64_t pieces) {
  std::ifstream stream(file, std::ios::binary);
  std::string piece;
  std::size_t hash = 0;
  const std::uint64_t whole = (size + kPiece - 1) / kPiece, count = std::min(whole, pieces);
  for (std::uint64_t i = 0; i < count && stream; ++i) {
    const std::uint64_t begin = count == whole ? i * kPiece
                                : count == 1   ? 0
                                               : (size - kPiece) / (count - 1) * i;
    piece.resize(std::min(kPiece, size - begin));
    stream.seekg(static_cast<std::streamoff>(begin));
    stream.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    hash = hash * 31 + std::hash<std::string>()(piece);
  }
  return stream ? std::to_string(hash) : "cannot be read";
}

/// Names and sizes of what is at `path`, and what some of it contains.
std::string listing_of(const std::string& path) {
  std::vector<std::pair<fs::path, std::uint64_t>> files;
  std::error_code error;
  const auto add = [&](const fs::path& file) {
    std::error_code unknown;
    files.emplace_back(file, fs::file_size(file, unknown));
  };
  if (fs::is_regular_file(path, error)) add(path);
  for (fs::recursive_directory_iterator next(path, error), end; !error && next != end;
       next.increment(error))
    if (next->is_regular_file(error)) add(next->path());
  std::ranges::sort(files);
  const std::uint64_t each =
      std::max<std::uint64_t>(1, kPieces / std::max<std::size_t>(1, files.size()));
  const std::size_t distance = files.size() / kPieces + 1;
  std::string text;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto& [file, size] = files[i];
    text += fs::relative(file, path, error).string() + ", " + std::to_string(size) + " bytes";
    if (i % distance == 0) text += ", fingerprint " + content_of(file, size, each);
    text += "\n";
  }
  return text;
}

std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::string> texts_of(const std::vector<Bytes>& all) {
  std::vector<std::string> texts;
  for (const Bytes& bytes : all) texts.push_back(text_of(bytes));
  return texts;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
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
  const auto all = machines.all_gather(bytes_of(own));
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
      .add_option("--transport", flags.transport,
                  "how tensors get from machine to machine: gloo, over TCP; mpi, of the mpirun "
                  "that has started them")
      ->check(CLI::IsMember({"gloo", "mpi"}));
  command
      .add_option("--on-machine-failure", flags.on_failure,
                  "go-on: the others load the newest checkpoint and go on, with the same result; "
                  "stop: end with exit code 4, as always by --transport mpi")
      ->check(CLI::IsMember({"go-on", "stop"}))
      ->each([&flags](const std::string&) { flags.failure_asked = true; });
  command
      .add_option("--silence", flags.silence,
                  "seconds without a sign of life after which a machine is lost")
      ->check(CLI::Range(1.0, 3600.0));
  command.add_flag("--rejoin", flags.rejoin,
                   "a machine that was lost and is started again is taken in: all save, and go on "
                   "from there with it");
  command.add_flag("--level", flags.level,
                   "where the CPUs of the machines differ, let all compute with AVX2, which is "
                   "slower than AVX-512; without it they are refused");
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

std::string level_machines(const MachineFlags& flags, const std::shared_ptr<Machines>& machines) {
  if (!machines) return "";
  const std::string own = cpu_words();
  const std::vector<std::string> asks =
      texts_of(machines->all_gather(bytes_of(flags.level ? "level" : "")));
  const std::vector<std::string> cpus = texts_of(machines->all_gather(bytes_of(own)));
  const auto differs = [&](const std::string& other) { return other != own; };
  if (std::ranges::count(asks, "level") == 0 || std::ranges::none_of(cpus, differs)) return "";
  const auto maker_of = [](const std::string& words) { return words.substr(0, words.find(' ')); };
  for (int rank = 0; rank < machines->size(); ++rank) {
    const std::string& words = cpus[static_cast<std::size_t>(rank)];
    const std::string who = "--level: the CPU of " + machines->name(rank) + " is " + words;
    if (maker_of(words) != maker_of(cpus[0]))
      throw ConfigError(who + ", that of " + machines->name(0) + " is " + cpus[0] +
                        ". Libraries take other ways on the CPUs of another maker, with the same "
                        "instruction sets too: use CPUs of one maker.");
    if ((words + ' ').find(" avx2 ") == std::string::npos ||
        (words + ' ').find(" fma ") == std::string::npos)
      throw ConfigError(who + ": machines are levelled to AVX2 with FMA, which it does not have.");
  }
  limit_to_avx2();
  return maker_of(own) + " with AVX2 at most";
}

void compare_recipes(const std::shared_ptr<Machines>& machines, const Recipe& recipe,
                     const std::string& instructions) {
  if (!machines) return;
  if (!instructions.empty() && recipe.precision != Precision::float32)
    throw ConfigError(
        "--level: CPUs with and without AVX-512 take other ways in bfloat16 and float16, whatever "
        "LibTorch is told. Set precision=float32.");
  compare(*machines, "recipes", print_recipe(recipe),
          "Give all machines the same recipe and --set.");
  compare(*machines, "data", listing_of(recipe.data.path),
          "Copy the same files to '" + recipe.data.path + "' on all machines.");
}

}  // namespace lockstep::apps
