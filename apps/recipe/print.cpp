// Writes recipes: as TOML, as values, as what differs.

#include <sstream>

#include "fields.h"
#include "recipe.h"
#include "rules.h"
#include "words.h"

namespace lockstep::apps {
namespace {

constexpr std::size_t kColumns = 100;

}  // namespace

std::string print_recipe(const Recipe& recipe) {
  Recipe copy = recipe;
  std::ostringstream out;
  for (const Section& section : sections(copy)) {
    out << (out.tellp() == 0 ? "# " : "\n# ") << section.help << "\n";
    if (!section.name.empty()) out << "[" << section.name << "]\n";
    for (const Field& field : section.fields) {
      out << "\n";
      for (const std::string& line :
           wrapped(field.help + " (" + allowed(field) + ")", kColumns - 2))
        out << "# " << line << "\n";
      out << field.name.substr(field.name.rfind('.') + 1) << " = " << text_of(field) << "\n";
    }
  }
  return out.str();
}

std::map<std::string, std::variant<bool, double, std::string>> values_of(const Recipe& recipe) {
  Recipe copy = recipe;
  std::map<std::string, std::variant<bool, double, std::string>> values;
  const auto all = sections(copy);
  for (const Section& section : all)
    for (const Field& field : section.fields) {
      if (!is_read(field, section, copy, all)) continue;
      std::visit(
          [&](const auto& target) {
            using T = std::decay_t<decltype(target)>;
            if constexpr (std::is_same_v<T, bool*>)
              values[field.name] = *target;
            else if constexpr (std::is_same_v<T, int*> || std::is_same_v<T, std::int64_t*> ||
                               std::is_same_v<T, double*>)
              values[field.name] = static_cast<double>(*target);
            else if constexpr (std::is_same_v<T, std::string*>)
              values[field.name] = *target;
            else if constexpr (std::is_same_v<T, Choice>)
              values[field.name] = target.words.at(target.chosen());
            else
              values[field.name] = text_of(field);
          },
          field.target);
    }
  return values;
}

std::vector<std::string> differences(const Recipe& a, const Recipe& b) {
  Recipe first = a;
  Recipe second = b;
  const auto of_second = sections(second);
  std::vector<std::string> result;
  for (const Section& section : sections(first))
    for (const Field& field : section.fields) {
      const Field* other = find_field(of_second, field.name);  // null: of another family
      if (other && text_of(field) != text_of(*other))
        result.push_back(field.name + ": " + text_of(field) + " -> " + text_of(*other));
    }
  return result;
}

}  // namespace lockstep::apps
