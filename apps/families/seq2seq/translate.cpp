// `lockstep translate`: lines in, lines out, in order.

#include <lockstep/error.h>
#include <lockstep/text/pairs.h>
#include <unistd.h>

#include <cerrno>
#include <iostream>
#include <memory>

#include "exit_codes.h"
#include "families/seq2seq/decode_flags.h"
#include "families/seq2seq/decoder.h"
#include "families/seq2seq/family_commands.h"
#include "line_input.h"
#include "signals.h"

namespace lockstep::apps {
namespace {

/// Decodes lines and writes what comes of them; says which cannot be decoded.
class Translation {
 public:
  Translation(const DecodeFlags& flags, int best) : decoder_(flags), best_(best) {}

  /// Writes a line for each, or `best` of them. A line that is no text is empty in the output.
  void add(const std::vector<InputLine>& lines) {
    std::vector<std::string> texts;
    std::vector<std::string> problems(lines.size());
    for (std::size_t i = 0; i < lines.size(); ++i) {
      auto text = lines[i].too_long ? std::nullopt : text::tidy_text(lines[i].text);
      if (!text) problems[i] = lines[i].too_long ? "has more than 1 MiB" : "is no UTF-8";
      texts.push_back(text.value_or(""));
    }
    const auto decoded = decoder_.decode(texts, best_);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      ++number_;
      if (!problems[i].empty()) note(problems[i]);
      write(problems[i].empty() ? decoded[i] : std::vector<DecodedText>{});
    }
    if (!std::cout.flush()) throw IoError("the standard output", "write", errno);
  }

  void finish() const {
    if (bad_ > kNotes) std::cerr << "note: " << bad_ << " lines in all could not be translated\n";
  }

 private:
  static constexpr std::int64_t kNotes = 10;

  void note(const std::string& problem) {
    if (++bad_ <= kNotes)
      std::cerr << "note: line " << number_ << " of the input " << problem
                << ": it is left empty\n";
  }

  void write(const std::vector<DecodedText>& found) const {
    if (best_ == 1) std::cout << (found.empty() ? "" : found.front().text) << "\n";
    for (const DecodedText& one : found)
      if (best_ > 1) std::cout << number_ << "\t" << one.score << "\t" << one.text << "\n";
  }

  TextDecoder decoder_;
  const int best_;
  std::int64_t number_ = 0, bad_ = 0;
};

int translate(const DecodeFlags& flags, int best) {
  std::ios::sync_with_stdio(false);
  watch_signals();
  Translation translation(flags, best);
  LineInput input(STDIN_FILENO, signalled);
  for (auto lines = input.take(); !lines.empty() && !signalled(); lines = input.take())
    translation.add(lines);
  translation.finish();
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
  command->footer(
      "Each line of the input becomes a line of the output; an empty one stays empty. A line that "
      "is "
      "no UTF-8 or has more than 1 MiB becomes an empty one, and is told.");
  command->callback([=, &run] { run = [=] { return translate(*flags, *best); }; });
}

}  // namespace lockstep::apps
