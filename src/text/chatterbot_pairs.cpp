#include <lockstep/text/pairs.h>

#include <optional>

#include "base/file.h"
#include "base/yaml_events.h"
#include "text/pair_rules.h"

namespace lockstep::text {
namespace {

using base::YamlEvents;

constexpr std::uint64_t kMostYamlBytes = std::uint64_t{64} << 20U;

struct Line {
  std::string text;
  Place place;
};

Place place_of(YamlEvents& yaml) {
  const base::YamlPlace place = yaml.place();
  return {yaml.path(), place.line, place.offset};
}

/// From the beginning of the list of its lines to the end.
void read_conversation(YamlEvents& yaml, PairRules& rules) {
  const Place begin = place_of(yaml);
  std::optional<Line> before;
  int lines = 0;
  while (yaml.next() != YAML_SEQUENCE_END_EVENT) {
    if (yaml.type() != YAML_SCALAR_EVENT)
      yaml.fail("a line of a conversation: a text, in quotes if it has a colon,");
    Line line{yaml.scalar().value_or(std::string(kNoText)), place_of(yaml)};
    if (before) rules.add({before->text, before->place}, {line.text, line.place});
    before = std::move(line);
    lines = lines < 2 ? lines + 1 : lines;
  }
  if (lines < 2) rules.add_fault(PairFault::empty_side, begin);
}

void read_conversations(YamlEvents& yaml, PairRules& rules) {
  if (yaml.type() != YAML_SEQUENCE_START_EVENT) yaml.fail("a list of conversations");
  while (yaml.next() != YAML_SEQUENCE_END_EVENT) {
    if (yaml.type() == YAML_SEQUENCE_START_EVENT)
      read_conversation(yaml, rules);
    else if (yaml.type() == YAML_SCALAR_EVENT)  // one line, which nothing follows
      rules.add_fault(PairFault::empty_side, place_of(yaml));
    else
      yaml.fail("a conversation: a list of texts,");
  }
}

/// From the beginning of a document to its end.
void read_document(YamlEvents& yaml, PairRules& rules) {
  if (yaml.next() != YAML_MAPPING_START_EVENT)
    yaml.fail("\"categories\" and \"conversations\", each with a list,");
  bool found = false;
  while (yaml.next() != YAML_MAPPING_END_EVENT) {
    const bool conversations = yaml.type() == YAML_SCALAR_EVENT && yaml.scalar() == "conversations";
    yaml.skip();
    yaml.next();
    if (conversations)
      read_conversations(yaml, rules);
    else
      yaml.skip();
    found = found || conversations;
  }
  if (!found) yaml.fail("a list of \"conversations\" before the end");
  yaml.next();
}

}  // namespace

PairReport read_chatterbot_pairs(const std::string& path, OnBadPair on_bad, const PairSink& sink) {
  PairRules rules(on_bad, sink);
  for (const std::string& file : pair_files(path, ".yml")) {
    YamlEvents yaml(file, base::read_bytes(file, kMostYamlBytes));
    yaml.next();
    if (yaml.next() == YAML_STREAM_END_EVENT) yaml.fail("a document with \"conversations\"");
    while (yaml.type() == YAML_DOCUMENT_START_EVENT) {
      read_document(yaml, rules);
      yaml.next();
    }
  }
  return rules.report();
}

}  // namespace lockstep::text
