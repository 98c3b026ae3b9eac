#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <lockstep/sim.h>

namespace options_test {

using lockstep::sim::Fault;
using lockstep::sim::parse_options;

TEST(Sim, OptionsAreReadFromText) {
  const auto options = parse_options(
      "devices=3,arithmetic=1e12,bandwidth=2e11,link=1e9,latency=2e-6,launch=0,memory=2e9,"
      "slow=1:3,missing=aten::erfinv,missing=aten::lgamma,lost=2@5:7,oom=0@3:17,timeline=1");
  EXPECT_EQ(options.devices, 3);
  EXPECT_EQ(options.arithmetic_per_second, 1e12);
  EXPECT_EQ(options.memory_bytes_per_second, 2e11);
  EXPECT_EQ(options.link_bytes_per_second, 1e9);
  EXPECT_EQ(options.link_latency.count(), 2e-6);
  EXPECT_EQ(options.launch.count(), 0);
  EXPECT_EQ(options.memory_bytes, 2'000'000'000);
  EXPECT_EQ(options.slowdown, (std::vector<double>{1, 3}));
  EXPECT_EQ(options.missing, (std::vector<std::string>{"aten::erfinv", "aten::lgamma"}));
  ASSERT_EQ(options.faults.size(), 2U);
  EXPECT_EQ(options.faults[0].kind, Fault::Kind::lost);
  EXPECT_EQ(options.faults[0].device, 2);
  EXPECT_EQ(options.faults[0].step, 5);
  EXPECT_EQ(options.faults[0].at, 7);
  EXPECT_EQ(options.faults[1].kind, Fault::Kind::out_of_memory);
  EXPECT_EQ(options.faults[1].at, 17);
  EXPECT_TRUE(options.timeline);
}

TEST(Sim, NoTextMeansTheDefaults) { EXPECT_EQ(parse_options("").devices, 4); }

TEST(Sim, BadOptionsAreRefusedByName) {
  for (const char* bad : {"devices=0", "devices=two", "devices", "speed=3", "slow=1", "slow=1:0",
                          "lost=2", "lost=x@1", "oom=0@1:-1", "memory=1.5", "link=-1", "=3"}) {
    try {
      parse_options(std::string("memory=1e9,") + bad);
      ADD_FAILURE() << bad;
    } catch (const lockstep::ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find(bad), std::string::npos) << error.what();
    }
  }
}

}  // namespace options_test
