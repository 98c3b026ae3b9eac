// All fields with what they mean, first those of every family, then those of each: as help, and as
// a page of Markdown.

#include <algorithm>
#include <sstream>

#include "family.h"
#include "recipe.h"
#include "words.h"

namespace lockstep::apps {
namespace {

constexpr std::size_t kColumns = 100;

/// Fields under a title: of all families, or of one.
struct Part {
  std::string title;  ///< empty: of all families
  std::string about;
  std::vector<Section> sections;
};

/// The sections with only those fields that differ by family, or only the others.
std::vector<Section> filtered(std::vector<Section> sections, bool of_family) {
  for (Section& section : sections)
    std::erase_if(section.fields, [&](const Field& field) { return field.of_family != of_family; });
  std::erase_if(sections, [](const Section& section) { return section.fields.empty(); });
  return sections;
}

/// Calls `action` with each part; recipes behind the fields have their defaults.
template <class Action>
void for_each_part(const Action& action) {
  Recipe common;
  action(Part{"", "", filtered(sections(common), false)});
  for (const Family& family : families()) {
    Recipe recipe(family.name);
    action(Part{family.name, family.about, filtered(sections(recipe), true)});
  }
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

std::string describe(const Part& part, std::size_t name_width, std::size_t default_width) {
  const std::size_t indent = 2 + name_width + 2 + default_width + 2;
  std::ostringstream out;
  if (!part.title.empty())
    out << "\nOnly of the family " << part.title << ", which " << part.about << ":\n";
  for (const Section& section : part.sections) {
    out << (section.name.empty() ? "" : "\n[" + section.name + "] ") << section.help << "\n";
    for (const Field& field : section.fields) {
      std::string begin = "  " + padded(field.name, name_width) + "  " + text_of(field);
      const std::string explained = field.help + " (" + allowed(field) + ")";
      for (const std::string& line : wrapped(explained, kColumns - indent)) {
        out << padded(begin, indent) << line << "\n";
        begin.clear();
      }
    }
  }
  return out.str();
}

std::string markdown(const Part& part) {
  std::ostringstream out;
  if (part.title.empty())
    out << "\n## Fields of every family\n";
  else
    out << "\n## Fields of the family `" << part.title << "`\n\nIt " << part.about
        << ". Its recipes have these fields as well; recipes of other families do not.\n";
  for (const Section& section : part.sections) {
    out << "\n### " << (section.name.empty() ? "Before any section" : "`[" + section.name + "]`")
        << "\n\n"
        << section.help
        << "\n\n| field | default | meaning | allowed |\n| --- | --- | --- | --- |\n";
    for (const Field& field : section.fields)
      out << "| `" << field.name << "` | `" << text_of(field) << "` | " << field.help << " | "
          << allowed(field) << " |\n";
  }
  return out.str();
}

}  // namespace

std::string listed_recipe(const BuiltIn& recipe) {
  constexpr std::size_t kNames = 15;
  return "  " + padded(recipe.name, kNames) + " " + recipe.about + "\n";
}

std::string describe_fields() {
  std::size_t name_width = 0;
  std::size_t default_width = 0;
  for_each_part([&](const Part& part) {
    for (const Section& section : part.sections)
      for (const Field& field : section.fields) {
        name_width = std::max(name_width, field.name.size());
        default_width = std::max(default_width, text_of(field).size());
      }
  });
  std::string text;
  for_each_part([&](const Part& part) { text += describe(part, name_width, default_width); });
  return text;
}

std::string markdown_page() {
  std::string page = "## Built in\n\n| name | family | trains |\n| --- | --- | --- |\n";
  for (const BuiltIn& recipe : built_in_recipes())
    page += "| `" + recipe.name + "` | `" + recipe.family + "` | " + recipe.about + " |\n";
  for_each_part([&](const Part& part) { page += markdown(part); });
  return page;
}

}  // namespace lockstep::apps
