#include "base/yaml_events.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/utf8.h"

namespace lockstep::base {
namespace {

constexpr int kMostDepth = 64;

/// U+10FFFF, which is no character and never will be one, but which libyaml reads: it refuses a
/// whole file for one byte that is not UTF-8.
constexpr std::string_view kMark = "\xf4\x8f\xbf\xbf";

std::string_view without_mark(const std::vector<std::uint8_t>& bytes) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return text;
}

std::string marked(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::string_view from = text;
    result += take_character(text) ? from.substr(0, from.size() - text.size()) : kMark;
  }
  return result;
}

std::size_t characters(std::string_view valid) {
  const auto begins = [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) != 0x80U; };
  return static_cast<std::size_t>(std::count_if(valid.begin(), valid.end(), begins));
}

}  // namespace

YamlEvents::YamlEvents(std::string path, std::vector<std::uint8_t> bytes)
    : path_(std::move(path)),
      bytes_(std::move(bytes)),
      original_(without_mark(bytes_)),
      text_(marked(original_)),
      rest_(original_) {
  if (!yaml_parser_initialize(&parser_)) throw std::bad_alloc();
  yaml_parser_set_encoding(&parser_, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text_.data()),
                               text_.size());
}

YamlEvents::~YamlEvents() {
  yaml_event_delete(&event_);
  yaml_parser_delete(&parser_);
}

yaml_event_type_t YamlEvents::next() {
  yaml_event_delete(&event_);
  if (!yaml_parser_parse(&parser_, &event_)) fail_to_parse();
  return event_.type;
}

void YamlEvents::fail_to_parse() {
  if (parser_.error == YAML_MEMORY_ERROR) throw std::bad_alloc();
  std::size_t at = parser_.problem_mark.index, line = parser_.problem_mark.line;
  if (parser_.error == YAML_READER_ERROR) {  // this one has no mark
    const std::string_view before = std::string_view(text_).substr(0, parser_.problem_offset);
    at = characters(before);
    line = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
  }
  throw CorruptFile(path_, offset(at),
                    "YAML in line " + std::to_string(line + 1) + " (" + parser_.problem + ")");
}

/// libyaml counts characters. Called with places from the first to the last.
std::uint64_t YamlEvents::offset(std::size_t character) {
  for (; character_ < character && !rest_.empty(); ++character_) take_character(rest_);
  return bytes_.size() - rest_.size();
}

YamlPlace YamlEvents::place() {
  const yaml_mark_t& mark = event_.start_mark;
  return {mark.line + 1, offset(mark.index)};
}

std::optional<std::string> YamlEvents::scalar() {
  const auto& found = event_.data.scalar;
  std::string text(reinterpret_cast<const char*>(found.value), found.length);
  if (text.find(kMark) != std::string::npos) return {};
  return text;
}

void YamlEvents::skip() {
  int depth = 0;
  do {
    if (type() == YAML_SEQUENCE_START_EVENT || type() == YAML_MAPPING_START_EVENT) ++depth;
    if (type() == YAML_SEQUENCE_END_EVENT || type() == YAML_MAPPING_END_EVENT) --depth;
    if (depth > kMostDepth) fail("lists and mappings that are nested less deeply");
    if (depth > 0) next();
  } while (depth > 0);
}

void YamlEvents::fail(const std::string& expected) {
  const YamlPlace at = place();
  throw CorruptFile(path_, at.offset, expected + " in line " + std::to_string(at.line));
}

}  // namespace lockstep::base
