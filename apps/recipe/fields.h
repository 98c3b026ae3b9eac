#pragma once

// The fields of a recipe, each declared once: name, place in the struct, meaning, allowed values.
// Reading, --set, --help, printing and comparing all go through this list.

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "recipe.h"

namespace lockstep::apps {

/// The numbers that a field allows, or that each element of a list has to be among.
struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool without_low = false;
  bool without_high = false;
};

constexpr int kMany = 1'000'000;

inline Range at_least(double low) { return {.low = low}; }
inline Range above(double low) { return {.low = low, .without_low = true}; }
inline Range from_to(double low, double high) { return {.low = low, .high = high}; }
inline Range from_to_below(double low, double high) {
  return {.low = low, .high = high, .without_high = true};
}

/// An enumeration: the words for its values, and which of them it is now.
struct Choice {
  std::vector<std::string> words;
  std::function<std::size_t()> chosen;
  std::function<void(std::size_t)> choose;
};

using Target =
    std::variant<bool*, int*, std::int64_t*, double*, std::string*, std::vector<std::int64_t>*,
                 std::vector<double>*, std::vector<std::string>*, Choice>;

struct Field {
  std::string name;  ///< "optimizer.lr"
  std::string help;
  Target target;
  Range range;
  const void* address;                  ///< of the target
  bool of_family = false;               ///< what it is, or what it allows, differs by family
  std::vector<std::string> kinds = {};  ///< of data that read it; empty: all
};

struct Section {
  std::string name;  ///< "optimizer"; empty: the keys before any section
  std::string help;
  std::vector<Field> fields;

  /// Adds a field that is not an enumeration.
  template <class T>
  Field& add(const std::string& key, T& target, std::string help_text, Range range = {}) {
    return fields.emplace_back(
        Field{full_name(key), std::move(help_text), &target, range, &target});
  }

  /// Adds an enumeration, with the word for each of its values.
  template <class Enum>
  Field& add_choice(const std::string& key, Enum& target,
                    const std::vector<std::pair<Enum, std::string>>& words, std::string help_text) {
    Choice choice;
    std::vector<Enum> values;
    for (const auto& [value, word] : words) {
      values.push_back(value);
      choice.words.push_back(word);
    }
    choice.choose = [&target, values](std::size_t i) { target = values.at(i); };
    choice.chosen = [&target, values] {
      std::size_t i = 0;
      while (values.at(i) != target) ++i;
      return i;
    };
    return fields.emplace_back(
        Field{full_name(key), std::move(help_text), std::move(choice), {}, &target});
  }

 private:
  std::string full_name(const std::string& key) const {
    return name.empty() ? key : name + "." + key;
  }
};

/// All fields of `recipe`, which has to outlive them: those of every family and those of its own.
std::vector<Section> sections(Recipe& recipe);

/// What it begins from, and how it is trained, evaluated, saved and logged: init to log.
std::vector<Section> training_sections(Recipe& recipe);

/// A choice among words, which are the values themselves.
Field& add_words(Section& section, const std::string& key, std::string& target,
                 const std::vector<std::string>& words, std::string help);

/// data.rest, for a family of images.
Field& add_rest(Section& section, Rest& rest);

/// The field of that name, or null.
const Field* find_field(const std::vector<Section>& sections, const std::string& name);

/// The name of the field at that address.
std::string name_of(const std::vector<Section>& sections, const void* address);

/// What a field allows: "a number above 0", "one of sgd, adam".
std::string allowed(const Field& field);

/// What a field holds, as TOML.
std::string text_of(const Field& field);

}  // namespace lockstep::apps
