// `lockstep translate`: lines in, lines out, in order.

#include <lockstep/error.h>
#include <lockstep/text/pairs.h>
#include <poll.h>
#include <unistd.h>

#include <iostream>
#include <memory>

#include "exit_codes.h"
#include "families/seq2seq/decode_flags.h"
#include "families/seq2seq/decoder.h"
#include "families/seq2seq/family_commands.h"
#include "signals.h"

namespace lockstep::apps {
namespace {

constexpr std::size_t kLines = 1024;  // translated at one go, at most

/// Lines of the standard input; knows whether another is there without waiting for it.
class Lines {
 public:
  /// Up to kLines: waits for the first, then takes what is there. Empty at the end.
  std::vector<std::string> take() {
    std::vector<std::string> lines;
    if (!ready(/*milliseconds=*/-1) && signalled()) return lines;
    while (lines.size() < kLines && (lines.empty() || ready(0))) {
      std::string line;
      if (!std::getline(std::cin, line)) break;
      if (!line.empty() && line.back() == '\r') line.pop_back();
      lines.push_back(std::move(line));
    }
    return lines;
  }

 private:
  /// Waits so long, -1: until there is something, or a signal came.
  static bool ready(int milliseconds) {
    if (std::cin.rdbuf()->in_avail() > 0) return true;
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    return ::poll(&input, 1, milliseconds) > 0;
  }
};

/// As the training texts were. False: from one on they are left out, for that one is no UTF-8.
bool tidy(std::vector<std::string>& texts) {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    auto text = text::tidy_text(texts[i]);
    if (!text) {
      texts.resize(i);
      return false;
    }
    texts[i] = std::move(*text);
  }
  return true;
}

int translate(const DecodeFlags& flags, int best) {
  std::ios::sync_with_stdio(false);
  watch_signals();
  TextDecoder decoder(flags);
  Lines lines;
  std::int64_t number = 0;
  for (auto texts = lines.take(); !texts.empty(); texts = lines.take()) {
    const bool good = tidy(texts);
    const auto decoded = decoder.decode(texts, best);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      ++number;
      if (best == 1) {
        std::cout << (decoded[i].empty() ? "" : decoded[i].front().text) << "\n";
        continue;
      }
      for (const DecodedText& one : decoded[i])
        std::cout << number << "\t" << one.score << "\t" << one.text << "\n";
    }
    if (!std::cout.flush()) throw IoError("the standard output", "write", errno);
    if (!good)
      throw ConfigError("line " + std::to_string(number + 1) +
                        " of the input is no UTF-8; the lines before it are translated.");
    if (signalled()) break;
  }
  return signalled() ? kStopped : kDone;
}

}  // namespace

void add_translate(CLI::App& app, Run& run) {
  const auto flags = std::make_shared<DecodeFlags>();
  const auto best = std::make_shared<int>(1);
  CLI::App* command =
      app.add_subcommand("translate", "Translates lines: lockstep translate RUN < in > out.");
  add_decode_flags(*command, *flags);
  command
      ->add_option("--best", *best,
                   "so many translations of each line, as: line number, score, text")
      ->check(CLI::Range(1, 1024));
  command->footer("Each line of the input becomes a line of the output; an empty one stays empty.");
  command->callback([=, &run] { run = [=] { return translate(*flags, *best); }; });
}

}  // namespace lockstep::apps
