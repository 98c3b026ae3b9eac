#include <gtest/gtest.h>
#include <lockstep/checkpoint.h>
#include <lockstep/error.h>
#include <lockstep/verify.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/system_call.h"
#include "small_job.h"

namespace lockstep {
namespace checkpoint_test {

namespace fs = std::filesystem;
using testing::new_folder;
using testing::SmallJob;

/// A checkpoint after so many steps.
Checkpoint checkpoint_after(int steps) {
  const auto job = SmallJob{}.make();
  for (int i = 0; i < steps; ++i) job->step();
  Checkpoint checkpoint{.state = job->strategy().state()};
  checkpoint.manifest.progress.input = job->position();
  checkpoint.manifest.shards = 4;
  return checkpoint;
}

/// The same training, with the state that was read.
std::string difference_after_load(const Checkpoint& expected, const Checkpoint& found) {
  const auto a = SmallJob{}.make(), b = SmallJob{.devices = 3}.make();
  a->strategy().load(expected.state);
  b->strategy().load(found.state);
  State x = a->strategy().state(), y = b->strategy().state();
  x.gradients.clear();
  y.gradients.clear();
  return first_difference(x, y);
}

void flip_byte(const std::string& path, std::int64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(offset);
  const char byte = static_cast<char>(file.get() ^ 1);
  file.seekp(offset);
  file.put(byte);
}

TEST(Checkpoint, HoldsFilesThatAreVerifiedToo) {
  const std::string path = new_folder("files") + "/step-000000001";
  Checkpoint written = checkpoint_after(1);
  written.files["words"] = std::string("one\0two\n", 8);
  save_checkpoint(path, written);
  EXPECT_EQ(load_checkpoint(path).files, written.files);
  flip_byte(path + "/words", 2);
  EXPECT_THROW(load_checkpoint(path), CorruptFile);
  for (const char* name : {"manifest.json", "weights.safetensors", "a/b", "..", ""}) {
    written.files = {{name, "?"}};
    EXPECT_THROW(save_checkpoint(path, written), ConfigError) << name;
  }
}

TEST(Checkpoint, ReadsBackBitForBitOnAnotherNumberOfDevices) {
  const std::string path = new_folder("whole") + "/step-000000003";
  const Checkpoint written = checkpoint_after(3);
  save_checkpoint(path, written);
  const Checkpoint read = load_checkpoint(path);
  EXPECT_EQ(read.state.steps, 3);
  EXPECT_EQ(read.manifest.progress.input, written.manifest.progress.input);
  EXPECT_EQ(read.state.slots.size(), written.state.slots.size());
  EXPECT_EQ(read.state.averages.size(), written.state.averages.size());
  EXPECT_EQ(difference_after_load(written, read), "");
}

TEST(Checkpoint, WeightsInSeveralFilesAreReadBackTheSame) {
  const Checkpoint written = checkpoint_after(2);
  for (const int files : {1, 2, 3, 100}) {
    const std::string path = new_folder("files") + "/step-000000002";
    save_checkpoint(path, written, files);
    const Checkpoint read = load_checkpoint(path);
    const auto count = std::ranges::count(read.manifest.files, "weights", &ManifestFile::holds);
    EXPECT_EQ(count, std::min<std::int64_t>(files, 9)) << "there are nine tensors";
    EXPECT_EQ(difference_after_load(written, read), "") << files;
  }
}

TEST(Checkpoint, AnAlteredByteInAnyFileIsNamedAndTheNewestWholeOneIsUsed) {
  for (const std::string name :
       {"weights.safetensors", "slots.safetensors", "averages.safetensors", "manifest.json"}) {
    const std::string folder = new_folder("altered");
    save_checkpoint(checkpoint_path(folder, 2), checkpoint_after(2));
    save_checkpoint(checkpoint_path(folder, 3), checkpoint_after(3));
    flip_byte(checkpoint_path(folder, 3) + "/" + name, 9);
    std::vector<std::string> problems;
    const auto found = load_newest(folder, problems);
    ASSERT_TRUE(found) << name;
    EXPECT_EQ(found->path, checkpoint_path(folder, 2));
    ASSERT_EQ(problems.size(), 1U);
    EXPECT_NE(problems.front().find("step-000000003/" + name), std::string::npos)
        << problems.front();
  }
}

TEST(Checkpoint, ATornFileIsNamedAndTheNewestWholeOneIsUsed) {
  const std::string folder = new_folder("torn");
  save_checkpoint(checkpoint_path(folder, 2), checkpoint_after(2));
  save_checkpoint(checkpoint_path(folder, 3), checkpoint_after(3));
  const std::string file = checkpoint_path(folder, 3) + "/weights.safetensors";
  fs::resize_file(file, fs::file_size(file) - 5);
  std::vector<std::string> problems;
  const auto found = load_newest(folder, problems);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->checkpoint.state.steps, 2);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems.front().find(file), std::string::npos);
}

TEST(Checkpoint, OneThatIsInTheWayIsReplaced) {
  const std::string folder = new_folder("again"), path = checkpoint_path(folder, 3);
  save_checkpoint(path, checkpoint_after(3));
  flip_byte(path + "/weights.safetensors", 200);
  save_checkpoint(path, checkpoint_after(3));
  EXPECT_EQ(load_checkpoint(path).state.steps, 3);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
}

TEST(Checkpoint, AFolderThatIsNoneIsNotReplaced) {
  const std::string folder = new_folder("home");
  std::ofstream(folder + "/letter") << "dear";
  EXPECT_THROW(save_checkpoint(folder, checkpoint_after(1)), IoError);
  EXPECT_TRUE(fs::exists(folder + "/letter"));
}

TEST(Checkpoint, WhicheverCallOfTheSystemFailsTheOlderOneIsWholeAndNoHalfOneIsSeen) {
  const Checkpoint two = checkpoint_after(2), three = checkpoint_after(3);
  for (int failing = 0;; ++failing) {
    const std::string folder = new_folder("full");
    save_checkpoint(checkpoint_path(folder, 2), two);
    std::atomic<int> calls = 0;
    bool failed = false;
    {
      const base::ScopedFaults full(
          [&](const char*, const std::string&) { return calls++ == failing ? ENOSPC : 0; });
      try {
        save_checkpoint(checkpoint_path(folder, 3), three);
      } catch (const IoError& error) {
        EXPECT_EQ(error.error_number, ENOSPC);
        failed = true;
      }
    }
    if (!failed) {
      EXPECT_GT(failing, 10) << "every file is opened, written, closed and synced";
      return;
    }
    std::vector<std::string> problems;
    const auto found = load_newest(folder, problems);
    ASSERT_TRUE(found) << failing;
    EXPECT_TRUE(problems.empty());
    EXPECT_GE(found->checkpoint.state.steps, 2);
    EXPECT_EQ(load_checkpoint(checkpoint_path(folder, 2)).state.steps, 2);
    fs::remove_all(folder);
  }
}

TEST(Checkpoint, AFolderThatWasNeverFinishedIsNotOne) {
  const std::string folder = new_folder("unfinished");
  fs::create_directories(folder + "/step-000000009.new");
  fs::create_directories(folder + "/step-000000008.old");
  std::vector<std::string> problems;
  EXPECT_FALSE(load_newest(folder, problems));
  EXPECT_TRUE(problems.empty());
  EXPECT_TRUE(list_checkpoints(folder + "/none").empty());
}

TEST(Checkpoint, WeightsHaveTheModelsOwnNames) {
  const std::string path = new_folder("names") + "/step-000000001";
  save_checkpoint(path, checkpoint_after(1));
  std::vector<std::string> names;
  for (const NamedTensor& tensor : load_tensors(path + "/weights.safetensors"))
    names.push_back(tensor.name);
  EXPECT_EQ(names, (std::vector<std::string>{"norm.bias", "norm.num_batches_tracked",
                                             "norm.running_mean", "norm.running_var", "norm.weight",
                                             "one.bias", "one.weight", "two.bias", "two.weight"}));
}

}  // namespace checkpoint_test
}  // namespace lockstep
