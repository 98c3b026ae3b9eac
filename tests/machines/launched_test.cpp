// Launchers by their variables, as they were seen to set them (OpenMPI 4.1.4 and 5.0.11, MPICH
// 4.0.2, torchrun 2.15) or as their manuals have them (Slurm).

#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <lockstep/machines.h>

#include <map>

#include "machines/host_list.h"

namespace launched_test {

using lockstep::ConfigError;
using lockstep::launched;
using lockstep::MachinesOptions;
using Table = std::map<std::string, std::string>;

std::optional<MachinesOptions> launched_by(Table table, const Table& more = {}) {
  for (const auto& [name, value] : more) table[name] = value;
  return launched([&](const char* name) -> std::optional<std::string> {
    const auto found = table.find(name);
    return found == table.end() ? std::nullopt : std::optional(found->second);
  });
}

void expect(const std::optional<MachinesOptions>& found, int machine, int machines,
            const std::string& first) {
  ASSERT_TRUE(found);
  EXPECT_EQ(found->machine, machine);
  EXPECT_EQ(found->machines, machines);
  EXPECT_EQ(found->first, first);
}

/// What the ConfigError says that must be thrown.
std::string refusal(const Table& table, const Table& more = {}) {
  try {
    launched_by(table, more);
  } catch (const ConfigError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no ConfigError was thrown";
  return "";
}

const Table kOpenMpi4 = {{"OMPI_COMM_WORLD_RANK", "2"},
                         {"OMPI_COMM_WORLD_SIZE", "3"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                         {"OMPI_MCA_orte_hnp_uri", "799277056.0;tcp://10.78.0.1:60597"},
                         {"OMPI_MCA_orte_local_daemon_uri", "799277056.2;tcp://10.78.0.3:48935"},
                         {"OMPI_MCA_orte_node_regex", "ll[1:0-2]@0(3)"},
                         {"PMIX_SERVER_URI2", "799277056.2;tcp4://127.0.0.1:51249"},
                         {"PMIX_NAMESPACE", "799277057"}};

const Table kOpenMpi5 = {
    {"OMPI_COMM_WORLD_RANK", "1"},
    {"OMPI_COMM_WORLD_SIZE", "3"},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
    {"PMIX_NAMESPACE", "prterun-gpu-node-0-8369@1"},
    {"PMIX_SERVER_URI2", "prterun-gpu-node-0-8369@0.1;tcp4://127.0.0.1:46337"}};

const Table kMpich = {
    {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "1"}, {"MPI_LOCALRANKID", "0"}};

const Table kSlurm = {{"SLURM_STEP_ID", "0"},
                      {"SLURM_PROCID", "3"},
                      {"SLURM_NTASKS", "4"},
                      {"SLURM_STEP_NUM_TASKS", "4"},
                      {"SLURM_TASKS_PER_NODE", "1(x4)"},
                      {"SLURM_JOB_NODELIST", "node[01-03,7]"}};

const Table kTorchrun = {
    {"RANK", "1"},       {"WORLD_SIZE", "2"},          {"LOCAL_WORLD_SIZE", "1"},
    {"LOCAL_RANK", "0"}, {"MASTER_ADDR", "a.cluster"}, {"MASTER_PORT", "4711"}};

TEST(Launched, NothingMeansAlone) {
  EXPECT_FALSE(launched_by({}));
  EXPECT_FALSE(launched_by({{"LOCKSTEP_FIRST", "a:1"}, {"HOME", "/"}}));
  EXPECT_FALSE(launched_by(kOpenMpi4, {{"OMPI_COMM_WORLD_SIZE", "1"}}));
}

TEST(Launched, OpenMpi4TellsTheAddressOfMpirunWhereTheFirstProcessIs) {
  expect(launched_by(kOpenMpi4), 2, 3, "10.78.0.1:29500");
  // Of several addresses the first, which all processes see alike.
  expect(launched_by(kOpenMpi4, {{"OMPI_MCA_orte_hnp_uri",
                                  "1.0;tcp://10.78.0.1,192.168.0.4:60597;tcp6://[fd00::2]:34169"}}),
         2, 3, "10.78.0.1:29500");
}

TEST(Launched, OpenMpi4NamesTheFirstMachineWhereMpirunTakesNoPart) {
  const Table outside = {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}};
  expect(launched_by(kOpenMpi4, outside), 1, 2, "ll1:29500");
  expect(launched_by(kOpenMpi4, {{"OMPI_COMM_WORLD_RANK", "1"},
                                 {"OMPI_MCA_orte_node_regex",
                                  "vm,[2:10].78.0.1,[2:10].78.0.2,[2:10].78.0.3@0(4)"}}),
         1, 3, "10.78.0.1:29500");
}

TEST(Launched, OpenMpi5NamesTheHostOfMpirun) {
  expect(launched_by(kOpenMpi5), 1, 3, "gpu-node-0:29500");
  const std::string text = refusal(kOpenMpi5, {{"OMPI_COMM_WORLD_RANK", "0"}});
  EXPECT_NE(text.find("LOCKSTEP_FIRST"), std::string::npos) << text;
}

TEST(Launched, WhatCannotBeToldIsAskedForByName) {
  for (const std::string& text :
       {refusal(kMpich), refusal(kOpenMpi4, {{"OMPI_COMM_WORLD_RANK", "0"}}),
        refusal(kOpenMpi4, {{"OMPI_MCA_orte_local_daemon_uri", ""}}),
        refusal(kOpenMpi5, {{"PMIX_NAMESPACE", "something else"}}),
        refusal(kSlurm, {{"SLURM_JOB_NODELIST", ""}}), refusal(kTorchrun, {{"MASTER_ADDR", ""}})}) {
    EXPECT_NE(text.find("LOCKSTEP_FIRST"), std::string::npos) << text;
    EXPECT_NE(text.find("--machines"), std::string::npos) << text;
  }
}

TEST(Launched, OurVariablesAreOnTopOfAnyLauncher) {
  for (const Table& table : {kOpenMpi4, kOpenMpi5, kMpich, kSlurm, kTorchrun}) {
    const auto found = launched_by(table, {{"LOCKSTEP_FIRST", "[fd00::1]:7"},
                                           {"LOCKSTEP_ADDRESS", "10.0.0.9"},
                                           {"LOCKSTEP_SECRET", "hush"}});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->first, "[fd00::1]:7");
    EXPECT_EQ(found->address, "10.0.0.9");
    EXPECT_EQ(found->secret, "hush");
  }
  expect(launched_by(kMpich, {{"LOCKSTEP_FIRST", "a"}}), 1, 2, "a:29500");
}

TEST(Launched, SlurmNamesTheFirstNode) {
  expect(launched_by(kSlurm), 3, 4, "node01:29500");
  expect(launched_by(kSlurm, {{"SLURM_STEP_NODELIST", "node[02-03]"}}), 3, 4, "node02:29500");
  // srun beside a PMI: it is still srun.
  expect(launched_by(kSlurm, {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}}), 3, 4, "node01:29500");
}

TEST(Launched, ABatchScriptWithoutSrunIsAlone) {
  EXPECT_FALSE(launched_by(
      {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_NODELIST", "node[01-04]"}}));
}

TEST(Launched, TorchrunTellsAddressAndPort) {
  expect(launched_by(kTorchrun), 1, 2, "a.cluster:4711");
  expect(launched_by(kTorchrun, {{"MASTER_ADDR", "fd00::1"}}), 1, 2, "[fd00::1]:4711");
  // The port is torchrun's own where its agent keeps the store.
  expect(launched_by(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}}), 1, 2,
         "a.cluster:4712");
}

TEST(Launched, SeveralProcessesOnAMachineAreRefused) {
  for (const std::string& text :
       {refusal(kOpenMpi4, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
        refusal(kMpich, {{"MPI_LOCALNRANKS", "2"}, {"LOCKSTEP_FIRST", "a:1"}}),
        refusal(kSlurm, {{"SLURM_TASKS_PER_NODE", "1,2(x2)"}}),
        refusal(kTorchrun, {{"LOCAL_WORLD_SIZE", "2"}})}) {
    EXPECT_NE(text.find("started 2 processes on one machine"), std::string::npos) << text;
    EXPECT_NE(text.find("--devices"), std::string::npos) << text;
  }
}

TEST(Launched, NumbersThatAreNoneAreNamed) {
  const std::string text = refusal(kOpenMpi4, {{"OMPI_COMM_WORLD_SIZE", "three"}});
  EXPECT_NE(text.find("OMPI_COMM_WORLD_SIZE is \"three\""), std::string::npos) << text;
  EXPECT_NE(refusal(kMpich, {{"PMI_RANK", ""}}).find("PMI_RANK is not set"), std::string::npos);
}

TEST(HostList, OfSlurm) {
  using lockstep::machines::first_of_slurm;
  EXPECT_EQ(first_of_slurm("a,b"), "a");
  EXPECT_EQ(first_of_slurm("node[01-03,7]"), "node01");
  EXPECT_EQ(first_of_slurm("node[7,01-03]-ib,z"), "node7-ib");
  EXPECT_EQ(first_of_slurm("r[2-3]n[005-009]"), "r2n005");
  EXPECT_EQ(first_of_slurm(""), "");
}

TEST(HostList, OfOpenMpi) {
  using lockstep::machines::hosts_of_openmpi;
  using Hosts = std::vector<std::string>;
  EXPECT_EQ(hosts_of_openmpi("ll[1:0,2,1]@0(3)"), (Hosts{"ll0", "ll2", "ll1"}));
  EXPECT_EQ(hosts_of_openmpi("login,n[3:8-10]-ib@0(4)"),
            (Hosts{"login", "n008-ib", "n009-ib", "n010-ib"}));
  EXPECT_FALSE(hosts_of_openmpi("n[x]"));
  EXPECT_FALSE(hosts_of_openmpi(""));
}

TEST(HostList, TasksOfSlurm) {
  using lockstep::machines::most_tasks_of_slurm;
  EXPECT_EQ(most_tasks_of_slurm("1(x4)"), 1);
  EXPECT_EQ(most_tasks_of_slurm("2(x3),1,5"), 5);
  EXPECT_EQ(most_tasks_of_slurm("?"), 0);
}

}  // namespace launched_test
