// How machines find each other, and who is turned away.

#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <lockstep/machines.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "machines/interfaces.h"
#include "network.h"
#include "stranger.h"

namespace start_test {

using namespace ranks;
using lockstep::ConfigError;
using lockstep::join;
using Names = std::vector<std::string>;

/// What join() throws for each machine: the message, empty if it throws nothing.
std::vector<std::string> failures(std::vector<MachinesOptions> all) {
  std::vector<std::string> messages(all.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < all.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        join(all[i]);
      } catch (const ConfigError& error) {
        messages[i] = std::string("ConfigError: ") + error.what();
      } catch (const MachinesError& error) {
        messages[i] = std::string("MachinesError: ") + error.what();
      }
    });
  threads.clear();
  return messages;
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(Start, OneMachineNeedsNoNetwork) {
  const auto alone = join({.name = "me"});
  EXPECT_EQ(alone->size(), 1);
  EXPECT_EQ(alone->rank(), 0);
  EXPECT_EQ(alone->name(0), "me");
  EXPECT_EQ(texts_of(alone->all_gather(bytes_of("x"))), Names{"x"});
  EXPECT_FALSE(join({})->name(0).empty());
}

TEST(Start, MachinesHaveTheirNamesAndTwoAlikeGetTheirNumber) {
  const Group group = network(
      4, [](MachinesOptions& options) { options.name = options.machine == 2 ? "other" : "same"; });
  for (const auto& machine : group)
    for (int rank = 0; rank < 4; ++rank)
      EXPECT_EQ(machine->name(rank),
                (Names{"same-0", "same-1", "other", "same-3"})[static_cast<std::size_t>(rank)]);
}

TEST(Start, TheFirstMayComeLast) {
  const std::string port = free_port();
  std::jthread early([&] { EXPECT_EQ(join(options_of(1, 2, port))->rank(), 1); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(join(options_of(0, 2, port))->rank(), 0);
}

TEST(Start, WhoIsMissingIsNamedOnAllMachines) {
  const std::string port = free_port();
  std::vector<MachinesOptions> all{options_of(0, 4, port), options_of(2, 4, port)};
  for (MachinesOptions& options : all) options.start = Seconds(0.5);
  for (const std::string& message : failures(all)) {
    EXPECT_HAS(message, "MachinesError: machines number 1 and number 3 are gone");
    EXPECT_HAS(message, "not there in time");
  }
}

TEST(Start, AFirstThatDoesNotComeIsNamedWithItsAddress) {
  const std::string port = free_port();
  MachinesOptions options = options_of(1, 2, port);
  options.start = Seconds(0.5);
  const std::string message = failures({options}).front();
  EXPECT_HAS(message, "MachinesError: machine number 0 at 127.0.0.1:" + port);
  EXPECT_HAS(message, "Connection refused");
}

TEST(Start, AWrongSecretIsRefusedByNameOnBothSides) {
  const std::string port = free_port();
  std::vector<MachinesOptions> all{options_of(0, 2, port), options_of(1, 2, port)};
  all[0].start = Seconds(0.6);
  for (const char* wrong : {"", "guess"}) {
    all[1].secret = wrong;
    const auto messages = failures(all);
    EXPECT_HAS(messages[1], "ConfigError: the first machine at 127.0.0.1:" + port);
    EXPECT_HAS(messages[1], "another secret");
    EXPECT_HAS(messages[1], "LOCKSTEP_SECRET");
    EXPECT_HAS(messages[0], "machine number 1 is gone");
    EXPECT_HAS(messages[0], "a machine at 127.0.0.1: it has another secret");
  }
}

TEST(Start, TwoMachinesWithTheSameNumberAreToldApart) {
  const std::string port = free_port();
  std::vector<MachinesOptions> all{options_of(0, 3, port), options_of(1, 3, port),
                                   options_of(1, 3, port)};
  all[1].name = "early";
  all[2].name = "late";
  for (MachinesOptions& options : all) options.start = Seconds(1);
  const auto messages = failures(all);
  const bool late = messages[2].starts_with("ConfigError");
  EXPECT_HAS(messages[late ? 2 : 1], "is machine 1 already: give each machine its own number");
  EXPECT_HAS(messages[late ? 1 : 2], "machine number 2 is gone");
  EXPECT_HAS(messages[0], late ? "turned away was late" : "turned away was early");
}

TEST(Start, OtherNumbersOfMachinesAreRefused) {
  const std::string port = free_port();
  std::vector<MachinesOptions> all{options_of(0, 2, port), options_of(1, 3, port)};
  all[0].start = Seconds(0.5);
  EXPECT_HAS(failures(all)[1], "it was told of 3 machines, the first of 2");
}

TEST(Start, WrongOptionsAreConfigErrors) {
  const auto message = [](const MachinesOptions& options) { return failures({options}).front(); };
  EXPECT_HAS(message({.machine = 2, .machines = 2, .first = "a:1"}), "no machine 2 among 2");
  EXPECT_HAS(message({.machines = 0}), "ConfigError");
  EXPECT_HAS(message({.machines = 2}), "LOCKSTEP_FIRST");
  EXPECT_HAS(message({.machines = 2, .first = "here"}), "write HOST:PORT");
  EXPECT_HAS(message({.machines = 2, .first = "here:99999"}), "write HOST:PORT");
  EXPECT_HAS(message({.machines = 2, .first = "0.0.0.0:29500"}), "all its addresses");
  EXPECT_HAS(message({.machines = 2, .first = "192.0.2.77:29500"}), "must be this one");
  EXPECT_HAS(message({.machines = 2, .first = "127.0.0.1:29500", .address = "192.0.2.77"}),
             "no address 192.0.2.77");
  EXPECT_HAS(message({.machines = 2, .first = "127.0.0.1:29500", .silence = Seconds(0.1)}),
             "need time");
}

TEST(Start, TheHubListensOnTheAskedAddressOnly) {
  const std::string port = free_port();
  std::jthread first([&] {
    MachinesOptions options = options_of(0, 2, port);
    options.start = Seconds(1);
    EXPECT_THROW(join(options), MachinesError);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_TRUE(Stranger(port).connected());
  EXPECT_FALSE(Stranger(port, "127.0.0.2").connected());
}

/// The addresses on which sockets of this process listen, as the kernel writes them.
std::set<std::string> listening() {
  std::set<std::string> inodes, found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry, error);
    if (target.starts_with("socket:[")) inodes.insert(target.substr(8, target.size() - 9));
  }
  for (const char* file : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::vector<std::string> word(10);
      for (std::string& each : word) words >> each;
      if (word[3] == "0A" && inodes.contains(word[9]))
        found.insert(word[1].substr(0, word[1].find(':')));
    }
  }
  return found;
}

TEST(Start, NothingListensOnAnotherAddressThanAskedForWhileAGroupIsAtWork) {
  const Group group = network(3, [](MachinesOptions& options) {
    if (options.machine == 2) options.address = "127.0.0.3";
  });
  on_all(group, [](Machines& me) {
    Bytes bytes(1000);
    if (me.rank() == 2) me.send(1, 1, bytes)->wait();
    if (me.rank() == 1) me.receive(2, 1, bytes)->wait();
    me.all_gather({});
  });
  EXPECT_EQ(listening(), (std::set<std::string>{"0100007F", "0300007F"}));
}

TEST(Start, IPv6Works) {
  if (!lockstep::machines::is_own_address("::1")) GTEST_SKIP() << "this machine has no IPv6";
  const Group group = network(2, [](MachinesOptions& options) {
    options.first = "[::1]" + options.first.substr(options.first.find(':'));
  });
  on_all(group, [](Machines& me) {
    Bytes bytes(1000);
    if (me.rank() == 0) me.send(1, 1, bytes)->wait();
    if (me.rank() == 1) me.receive(0, 1, bytes)->wait();
    EXPECT_EQ(me.all_gather({}).size(), 2U);
  });
}

TEST(Start, APortThatIsTakenIsNamed) {
  const std::string port = free_port();
  const lockstep::machines::Socket taken =
      lockstep::machines::listen_on({.host = "127.0.0.1", .port = port});
  EXPECT_HAS(failures({options_of(0, 2, port)}).front(), "choose another port");
}

TEST(Start, StrangersDoNotDisturbARunningGroup) {
  std::string port;
  const Group group = network(3, [&](MachinesOptions& options) {
    if (options.machine == 0) port = options.first.substr(options.first.find(':') + 1);
  });
  const Stranger silent(port);
  std::vector<std::unique_ptr<Stranger>> crowd;
  for (int i = 0; i < 300; ++i) crowd.push_back(std::make_unique<Stranger>(port));
  std::jthread disturber([&] {
    for (unsigned seed = 0; seed < 20; ++seed) {
      const Stranger noisy(port);
      noisy.say(pattern(5000, seed));
      noisy.hear();
    }
    const Stranger browser(port);
    browser.say(bytes_of("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    const std::string heard = browser.hear();
    EXPECT_EQ(heard.size() % 48, 0U) << "only the challenge, if anything";
    // The right name, and then a wrong proof: the answer is no.
    const Stranger guesser(port);
    Bytes answer = bytes_of("lockstep group\r\n");
    answer.resize(80);
    guesser.say(answer);
    const std::string verdict = guesser.hear();
    if (verdict.size() > 48) {
      EXPECT_EQ(verdict[48], 'n');
    }
  });
  on_all(group, [](Machines& me) {
    for (unsigned round = 0; round < 200; ++round)
      ASSERT_EQ(me.all_gather(pattern(8, round)).size(), 3U);
  });
  disturber.join();
  crowd.clear();
  on_all(group, [](Machines& me) {
    ASSERT_EQ(me.all_gather({}).size(), 3U);
    EXPECT_FALSE(me.trouble());
  });
}

}  // namespace start_test
