// `lockstep chat`: a prompt that a trained model answers at.

#include <editline/readline.h>
#include <lockstep/error.h>
#include <lockstep/text/pairs.h>
#include <unistd.h>

#include <clocale>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>

#include "exit_codes.h"
#include "families/seq2seq/decode_flags.h"
#include "families/seq2seq/decoder.h"
#include "families/seq2seq/family_commands.h"
#include "run_folder.h"
#include "terminal.h"

namespace lockstep::apps {
namespace {

constexpr const char* kHelp =
    "  /more [N]          N answers to the last question, with their scores (5)\n"
    "  /beam N            width of the beam search; 1: greedy\n"
    "  /temperature T     draw answers at random; 0: the best one\n"
    "  /quit              or Ctrl-D\n";

/// Where questions come from: a prompt with history on a terminal, else plain lines.
class Questions {
 public:
  explicit Questions(const std::string& run) : terminal_(isatty(STDIN_FILENO) != 0) {
    if (!terminal_) return;
    // Without a locale the editor would drop all letters that are not ASCII.
    if (!std::setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
    using_history();
    if (!std::filesystem::is_directory(checkpoints_of(run))) return;
    history_ = run + "/chat.history";
    read_history(history_.c_str());
  }

  /// Nothing at the end.
  std::optional<std::string> next() {
    std::string line;
    if (!terminal_) {
      if (!std::getline(std::cin, line)) return std::nullopt;
      std::cout << "> " << line << "\n";
      return line;
    }
    const std::unique_ptr<char, decltype(&std::free)> typed(readline("> "), &std::free);
    if (!typed) {
      std::cout << "\n";
      return std::nullopt;
    }
    line = typed.get();
    if (line.empty()) return line;
    add_history(line.c_str());
    if (!history_.empty()) write_history(history_.c_str());  // at once: Ctrl-C ends the program
    return line;
  }

  bool terminal() const { return terminal_; }

 private:
  const bool terminal_;
  std::string history_;  // its file; empty: none
};

class Chat {
 public:
  explicit Chat(const DecodeFlags& flags) : decoder_(flags) {}

  const std::string& about() const { return decoder_.about(); }

  /// False: the user wants to leave.
  bool hear(const std::string& line) {
    if (line.starts_with("/")) return obey(line);
    const auto text = text::tidy_text(line);
    if (!text) {
      std::cout << "(that is no UTF-8)" << std::endl;
    } else if (!text->empty()) {
      last_ = *text;
      answer(1);
    }
    return true;
  }

 private:
  bool obey(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    double number = -1;
    if (!(words >> number)) number = -1;
    if (command == "/quit" || command == "/exit") return false;
    if (command == "/more" && !last_.empty()) {
      answer(number >= 1 && number <= 100 ? static_cast<int>(number) : 5);
    } else if (command == "/beam" && number >= 1 && number <= 1024) {
      decoder_.beam() = static_cast<int>(number);
      decoder_.temperature() = 0;
    } else if (command == "/temperature" && number >= 0) {
      decoder_.temperature() = number;
    } else {
      std::cout << kHelp << std::flush;
    }
    return true;
  }

  void answer(int best) {
    const auto decoded = decoder_.decode({last_}, best).front();
    for (const DecodedText& one : decoded)
      std::cout << (best > 1 ? format("%8.3f  ", one.score) : "") << one.text << "\n";
    if (decoded.empty()) std::cout << "(nothing)\n";
    std::cout << std::flush;
  }

  TextDecoder decoder_;
  std::string last_;
};

int chat(const DecodeFlags& flags) {
  Chat chat(flags);
  Questions questions(flags.path);
  if (questions.terminal())
    std::cout << chat.about() << "\nType a question; /help shows the commands.\n";
  while (const auto line = questions.next())
    if (!chat.hear(*line)) break;
  return kDone;
}

}  // namespace

void add_chat(CLI::App& app, Run& run) {
  const auto flags = std::make_shared<DecodeFlags>();
  CLI::App* command = app.add_subcommand("chat", "Answers questions at a prompt.");
  add_decode_flags(*command, *flags);
  command->footer(std::string("At the prompt, which keeps its history in the run:\n") + kHelp);
  command->callback([=, &run] { run = [=] { return chat(*flags); }; });
}

}  // namespace lockstep::apps
