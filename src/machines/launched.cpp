#include <lockstep/error.h>
#include <lockstep/machines.h>

#include <charconv>
#include <regex>

#include "machines/host_list.h"

namespace lockstep {
namespace {

constexpr int kDefaultPort = 29500;

/// The variables of this process.
class Variables {
 public:
  using Get = std::function<std::optional<std::string>(const char*)>;
  explicit Variables(const Get& get) : get_(get) {}

  std::optional<std::string> text(const char* name) const {
    std::optional<std::string> value = get_(name);
    return value && value->empty() ? std::nullopt : value;
  }
  bool has(const char* name) const { return text(name).has_value(); }

  std::optional<int> number(const char* name) const {
    const std::optional<std::string> value = text(name);
    if (!value) return std::nullopt;
    int result = 0;
    const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), result);
    if (error != std::errc() || end != value->data() + value->size() || result < 0)
      throw ConfigError(std::string(name) + " is \"" + *value +
                        "\", and should be a number: start the program by its launcher, or give "
                        "--machine and --machines");
    return result;
  }

  int needed(const char* name, const char* launcher) const {
    const std::optional<int> value = number(name);
    if (!value)
      throw ConfigError(std::string("this process was started by ") + launcher + ", but " + name +
                        " is not set: give --machine and --machines instead");
    return *value;
  }

 private:
  const Get& get_;
};

/// What a launcher tells.
struct Launch {
  const char* launcher = "";
  int machine = 0;
  int machines = 1;
  int here = 1;            ///< processes on this machine
  std::string first = "";  ///< empty: it does not tell
};

std::string with_port(const std::string& host, int port = kDefaultPort) {
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" +
         std::to_string(port);
}

/// The number of the daemon that started this process: the last in "name.3;tcp://...".
std::optional<int> daemon_of(const std::optional<std::string>& uri) {
  static const std::regex kDaemon(R"([^;]*\.(\d{1,8});.*)");
  std::smatch parts;
  if (!uri || !std::regex_match(*uri, parts, kDaemon)) return std::nullopt;
  return std::stoi(parts[1]);
}

/// OpenMPI says where mpirun is, and by which of its daemons a process was started. Daemon 0 is
/// mpirun itself. With one process a machine, processes follow the daemons in order; so the first
/// process is beside mpirun (its daemon 0) or, where mpirun's machine takes no part, at daemon 1.
std::string first_of_openmpi(const Variables& variables, int rank) {
  const auto hnp = variables.text("OMPI_MCA_orte_hnp_uri");
  const auto daemon = daemon_of(variables.text(hnp ? "OMPI_MCA_orte_local_daemon_uri"  // version 4
                                                   : "PMIX_SERVER_URI2"));             // version 5
  if (!daemon) return "";
  static const std::regex kAddress(R"([^;]*;tcp://([\d.]+).*)");
  static const std::regex kMpirunHost(R"(prterun-(.+)-\d+@\d+)");
  std::smatch parts;
  if (*daemon == rank) {
    const std::string text = hnp ? *hnp : variables.text("PMIX_NAMESPACE").value_or("");
    return std::regex_match(text, parts, hnp ? kAddress : kMpirunHost) ? with_port(parts[1]) : "";
  }
  const auto list = variables.text("OMPI_MCA_orte_node_regex");
  const auto hosts = list ? machines::hosts_of_openmpi(*list) : std::nullopt;
  return *daemon == rank + 1 && hosts && hosts->size() > 1 ? with_port((*hosts)[1]) : "";
}

std::optional<Launch> by_openmpi(const Variables& variables) {
  const auto size = variables.number("OMPI_COMM_WORLD_SIZE");
  if (!size) return std::nullopt;
  const int rank = variables.needed("OMPI_COMM_WORLD_RANK", "OpenMPI's mpirun");
  return Launch{.launcher = "OpenMPI's mpirun",
                .machine = rank,
                .machines = *size,
                .here = variables.number("OMPI_COMM_WORLD_LOCAL_SIZE").value_or(1),
                .first = first_of_openmpi(variables, rank)};
}

std::optional<Launch> by_torchrun(const Variables& variables) {
  const auto size = variables.number("WORLD_SIZE");
  if (!size || !variables.has("RANK") || !variables.has("LOCAL_WORLD_SIZE")) return std::nullopt;
  // torchrun itself listens on the port that it tells, if its agent keeps the store.
  const int next = variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True" ? 1 : 0;
  const auto host = variables.text("MASTER_ADDR");
  const int port = variables.number("MASTER_PORT").value_or(kDefaultPort - next) + next;
  return Launch{.launcher = "torchrun",
                .machine = variables.needed("RANK", "torchrun"),
                .machines = *size,
                .here = variables.needed("LOCAL_WORLD_SIZE", "torchrun"),
                .first = host ? with_port(*host, port) : ""};
}

/// Hydra, the launcher of MPICH, MVAPICH and Intel MPI. It does not tell where the first one is.
std::optional<Launch> by_mpich(const Variables& variables) {
  const auto size = variables.number("PMI_SIZE");
  const auto here = variables.number("MPI_LOCALNRANKS");
  if (!size || !here) return std::nullopt;
  return Launch{.launcher = "MPICH's mpirun",
                .machine = variables.needed("PMI_RANK", "MPICH's mpirun"),
                .machines = *size,
                .here = *here};
}

/// A step is what srun starts; a batch script has the job's other variables too, and is one
/// process.
std::optional<Launch> by_slurm(const Variables& variables) {
  if (!variables.has("SLURM_STEP_ID") || !variables.has("SLURM_PROCID")) return std::nullopt;
  const auto step_tasks = variables.number("SLURM_STEP_NUM_TASKS");
  const auto either = [&](const char* of_step, const char* of_job) {
    return variables.text(of_step) ? variables.text(of_step) : variables.text(of_job);
  };
  const auto nodes = either("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST");
  const auto tasks = either("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE");
  const std::string host = machines::first_of_slurm(nodes.value_or(""));
  return Launch{
      .launcher = "Slurm's srun",
      .machine = variables.needed("SLURM_PROCID", "Slurm's srun"),
      .machines = step_tasks ? *step_tasks : variables.needed("SLURM_NTASKS", "Slurm's srun"),
      .here = tasks ? machines::most_tasks_of_slurm(*tasks) : 1,
      .first = host.empty() ? "" : with_port(host)};
}

void refuse_many_on_one_machine(const Launch& launch) {
  if (launch.here <= 1) return;
  throw ConfigError(std::string(launch.launcher) + " started " + std::to_string(launch.here) +
                    " processes on one machine. Start one a machine (mpirun --map-by ppr:1:node, "
                    "mpirun -ppn 1, srun --ntasks-per-node=1, torchrun --nproc-per-node=1): it "
                    "uses all devices of its machine; choose them by --devices");
}

}  // namespace

std::optional<MachinesOptions> launched(
    const std::function<std::optional<std::string>(const char*)>& get) {
  const Variables variables(get);
  std::optional<Launch> launch;
  for (const auto by : {by_openmpi, by_torchrun, by_mpich, by_slurm})
    if (!launch) launch = by(variables);
  if (!launch || launch->machines <= 1) return std::nullopt;
  refuse_many_on_one_machine(*launch);
  std::string first = variables.text("LOCKSTEP_FIRST").value_or(launch->first);
  if (first.empty())
    throw ConfigError(std::string(launch->launcher) +
                      " does not tell where the first machine is: set LOCKSTEP_FIRST to its "
                      "HOST:PORT for all processes, or give --machines HOST:PORT");
  if (first.find(':') == std::string::npos) first = with_port(first);
  return MachinesOptions{.machine = launch->machine,
                         .machines = launch->machines,
                         .first = first,
                         .address = variables.text("LOCKSTEP_ADDRESS").value_or(""),
                         .secret = variables.text("LOCKSTEP_SECRET").value_or("")};
}

}  // namespace lockstep
