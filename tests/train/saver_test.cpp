// What a Saver removes, and what it leaves alone.

#include "train/saver.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "small_job.h"

namespace lockstep {
namespace saver_test {

namespace fs = std::filesystem;
using testing::new_folder;
using testing::SmallJob;

void make_folder(const std::string& path) {
  fs::create_directories(path);
  std::ofstream(path + "/weights") << "?";
}

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

Checkpoint checkpoint_at(std::int64_t step) {
  Checkpoint checkpoint{.state = SmallJob{}.make()->strategy().state()};
  checkpoint.state.steps = step;
  return checkpoint;
}

/// Saves checkpoints one after the other and returns the last report.
SaveReport save(const std::string& folder, const std::vector<std::int64_t>& steps) {
  train::Saver saver({.folder = folder, .keep = {.last = 1, .best = 0}});
  for (const std::int64_t step : steps) saver.start(checkpoint_at(step), {});
  return saver.ended(/*wait=*/true).back();
}

TEST(Saver, RemovesCheckpointsThatWereHalfWrittenOrHalfRemovedAndNothingElse) {
  const std::string folder = new_folder("left");
  const std::set<std::string> folders = {
      "backup.old",          "notes.new",           "step-abc.new",
      "step-10.new",         "step-000000010x.old", "step-.old",
      "step-0000000011.new", "my-000000010.old",    "step-000000010.newer"};
  const std::set<std::string> files = {"model.new", "notes.old", "step-000000010.old.txt",
                                       "step-000000012.new"};
  for (const std::string& name : folders) make_folder(folder + "/" + name);
  for (const std::string& name : files) std::ofstream(folder + "/" + name) << "mine";
  for (const char* own :
       {"step-000000010.new", "step-000000010.new2", "step-000000009.old", "step-1000000000.old"})
    make_folder(folder + "/" + own);
  // A copy that the user made: it still has its manifest.
  make_folder(folder + "/step-000000008.old");
  std::ofstream(folder + "/step-000000008.old/manifest.json") << "{}";

  const train::Saver saver({.folder = folder});
  std::set<std::string> expected = {"step-000000008.old"};
  expected.insert(folders.begin(), folders.end());
  expected.insert(files.begin(), files.end());
  EXPECT_EQ(names_in(folder), expected);
}

TEST(Saver, ACheckpointThatTheUserCopiedUnderAnotherNameStays) {
  const std::string folder = new_folder("copied");
  save(folder, {1});
  fs::copy(checkpoint_path(folder, 1), folder + "/step-good", fs::copy_options::recursive);
  EXPECT_EQ(save(folder, {2, 3}).removed, std::vector{checkpoint_path(folder, 2)});
  EXPECT_EQ(names_in(folder), (std::set<std::string>{"step-000000003", "step-good"}));
}

TEST(Saver, WhatIsInTheWayOfARemovalStaysAndIsTold) {
  const std::string folder = new_folder("way");
  save(folder, {1});
  const std::string mine = checkpoint_path(folder, 1) + ".old";
  fs::copy(checkpoint_path(folder, 1), mine, fs::copy_options::recursive);
  const SaveReport report = save(folder, {2});
  EXPECT_EQ(report.error, "");
  EXPECT_NE(report.trouble.find(mine), std::string::npos) << report.trouble;
  EXPECT_TRUE(report.removed.empty());
  EXPECT_EQ(load_checkpoint(mine).state.steps, 1) << "it is whole";
  fs::remove_all(mine);
  EXPECT_EQ(save(folder, {3}).removed.size(), 2U) << "the next save makes up for it";
}

}  // namespace saver_test
}  // namespace lockstep
