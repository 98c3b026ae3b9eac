// `lockstep completion`: what the shells offer. bash runs its script; those of the others are only
// looked at.

#include "completion.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace {

using namespace lockstep::apps;
namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class Completion : public testing::Test {
 protected:
  Completion() {
    std::string name = testing::TempDir() + "lockstep-completion-XXXXXX";
    if (!mkdtemp(name.data())) throw std::runtime_error("no folder for the test");
    folder_ = name;
    std::ofstream(folder_ / "mine.toml") << "";
    std::ofstream(folder_ / "notes.txt") << "";
    CLI::App* train = app_.add_subcommand("train", "Trains: a model.");
    train->add_option("RECIPE", recipe_, "what to train")->required();
    train->add_option("--set", sets_, "sets a field");
    train->add_option("--placement", placement_, "where; it's so")
        ->check(CLI::IsMember({"soft", "strict"}));
    train->add_option("--run-dir", folder_name_, "where to");
    train->add_flag("--quiet,-q", quiet_, "says less");
    app_.add_subcommand("inspect", "Shows.")->add_option("path", folder_name_, "what");
    add_completion(app_, run_);
  }
  ~Completion() override { fs::remove_all(folder_); }

  std::string script(Shell shell) const { return completion_script(app_, shell); }

  /// What bash offers for the last of `words`, which it has cut as bash does.
  Words offered(const Words& words) const {
    std::ofstream file(folder_ / "script");
    file << script(Shell::bash) << "cd '" << folder_.string() << "'\nCOMP_WORDS=(lockstep";
    for (const std::string& word : words) file << " '" << word << "'";
    file << ")\nCOMP_CWORD=" << words.size()
         << "\n_lockstep\nfor word in \"${COMPREPLY[@]}\"; do printf '%s\\n' \"$word\"; done\n";
    file.close();
    return lines_of("bash -u " + (folder_ / "script").string() + " 2>&1");
  }

  static Words lines_of(const std::string& command) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command.c_str(), "r"), pclose);
    std::string text;
    for (int letter = std::fgetc(pipe.get()); letter != EOF; letter = std::fgetc(pipe.get()))
      text += static_cast<char>(letter);
    std::istringstream stream(text);
    Words lines;
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }

  CLI::App app_{"Trains.", "lockstep"};
  lockstep::apps::Run run_;

 private:
  fs::path folder_;
  std::string recipe_;
  std::string placement_;
  std::string folder_name_;
  Words sets_;
  bool quiet_ = false;
};

TEST_F(Completion, BashOffersCommands) {
  EXPECT_EQ(offered({""}), (Words{"train", "inspect", "completion"}));
  EXPECT_EQ(offered({"tr"}), (Words{"train"}));
}

TEST_F(Completion, BashOffersTheFlagsOfACommand) {
  EXPECT_EQ(offered({"train", "--"}),
            (Words{"--help", "--set", "--placement", "--run-dir", "--quiet"}));
  EXPECT_EQ(offered({"train", "fashion", "-"}),
            (Words{"--help", "-h", "--set", "--placement", "--run-dir", "--quiet", "-q"}));
  EXPECT_EQ(offered({"inspect", "--"}), (Words{"--help"}));
}

TEST_F(Completion, BashOffersRecipesAndTomlFiles) {
  EXPECT_EQ(offered({"train", ""}), (Words{"chat", "cifar10", "detect", "fashion", "imagefolder",
                                           "imagefolder50", "ssd_mobilenet_v1", "ssd_mobilenet_v2",
                                           "translate", "translate_sgd", "mine.toml"}));
  EXPECT_EQ(offered({"train", "image"}), (Words{"imagefolder", "imagefolder50"}));
  EXPECT_EQ(offered({"train", "m"}), (Words{"mine.toml"}));
}

TEST_F(Completion, BashOffersFieldsAndTheirValues) {
  EXPECT_EQ(offered({"train", "fashion", "--set", "optimizer.w"}),
            (Words{"optimizer.weight_decay="}));
  EXPECT_EQ(offered({"train", "--set", "model.name", "="}),
            (Words{"convnet", "resnet20", "resnet18", "resnet50"}));
  EXPECT_EQ(offered({"train", "--set", "model.name", "=", "resnet2"}), (Words{"resnet20"}));
  EXPECT_EQ(offered({"train", "--set", "data.augment", "=", ""}), (Words{"true", "false"}));
  EXPECT_EQ(offered({"train", "--set", "optimizer.lr", "="}), Words{});
}

TEST_F(Completion, BashOffersTheValuesOfAFlag) {
  EXPECT_EQ(offered({"train", "--placement", "s"}), (Words{"soft", "strict"}));
  EXPECT_EQ(offered({"train", "--run-dir", "n"}), (Words{"notes.txt"}));
}

TEST_F(Completion, BashOffersWhatACommandTakesWithoutAFlag) {
  EXPECT_EQ(offered({"inspect", "n"}), (Words{"notes.txt"}));
  EXPECT_EQ(offered({"completion", ""}), (Words{"bash", "zsh", "fish"}));
}

TEST_F(Completion, TheScriptsForZshAndFishHaveTheSameWords) {
  for (const Shell shell : {Shell::zsh, Shell::fish})
    for (const char* word : {"train", "inspect", "fashion", "placement", "soft",
                             "optimizer.lr=", "resnet20", "Trains", "where"})
      EXPECT_NE(script(shell).find(word), std::string::npos) << word;
  EXPECT_NE(script(Shell::fish).find("model.name=resnet20"), std::string::npos);
  EXPECT_EQ(script(Shell::fish).find("it's"), std::string::npos);
}

TEST_F(Completion, TheCommandPrintsTheScriptOfTheShell) {
  app_.parse("completion fish");
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_(), 0);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), script(Shell::fish));
  EXPECT_THROW(app_.parse("completion csh"), CLI::ParseError);
  EXPECT_THROW(app_.parse("completion"), CLI::ParseError);
}

}  // namespace
