#include <lockstep/error.h>
#include <lockstep/text/pairs.h>

#include <algorithm>

#include "text/mo_file.h"
#include "text/pair_rules.h"
#include "text/to_utf8.h"

namespace lockstep::text {
namespace {

std::string_view without_context(std::string_view original) {
  const std::size_t end = original.find('\4');
  return end == std::string_view::npos ? original : original.substr(end + 1);
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> forms;
  while (true) {
    const std::size_t end = text.find('\0');
    forms.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return forms;
    text.remove_prefix(end + 1);
  }
}

ToUtf8 converter(const MoFile& file) {
  const std::string charset = file.charset();
  std::optional<ToUtf8> found = ToUtf8::from(charset.empty() ? "UTF-8" : charset);
  if (!found)
    throw CorruptFile(file.path(), 0,
                      "a catalogue in a charset that iconv knows, not \"" + charset + "\"");
  return std::move(*found);
}

void add(const ToUtf8& to_utf8, std::string_view original, std::string_view translation,
         const Place& place, PairRules& rules) {
  const auto source = to_utf8(original), target = to_utf8(translation);
  if (source && target)
    rules.add({*source, place}, {*target, place});
  else
    rules.add_fault(PairFault::bad_utf8, place);
}

/// So is the original of the header; and some programs have line breaks and indents translated.
bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

void read_catalogue(const MoFile& file, PairRules& rules) {
  const ToUtf8 to_utf8 = converter(file);
  for (std::size_t i = 0; i < file.size(); ++i) {
    const MoFile::Message message = file[i];
    const Place place{file.path(), i + 1, message.offset, true};
    const auto originals = split(without_context(message.original));
    const auto translations = split(message.translation);
    for (std::size_t form = 0; form < std::min<std::size_t>(originals.size(), 2); ++form) {
      const std::string_view translation = translations[std::min(form, translations.size() - 1)];
      if (!translation.empty() && !is_blank(originals[form]))
        add(to_utf8, originals[form], translation, place, rules);
    }
  }
}

}  // namespace

PairReport read_gettext_pairs(const std::string& path, OnBadPair on_bad, const PairSink& sink) {
  PairRules rules(on_bad, sink);
  for (const std::string& file : pair_files(path, ".mo")) read_catalogue(MoFile(file), rules);
  return rules.report();
}

}  // namespace lockstep::text
