#include "value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "words.h"

namespace lockstep::apps {
namespace {

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

/// "from 0 to below 1"; nothing when every number is allowed.
std::string limits(const Range& range) {
  const std::string low = decimal(range.low);
  const std::string high = (range.without_high ? "below " : "") + decimal(range.high);
  if (!std::isfinite(range.low)) return std::isfinite(range.high) ? " up to " + high : "";
  if (!std::isfinite(range.high)) return (range.without_low ? " above " : " of at least ") + low;
  return (range.without_low ? " from above " : " from ") + low + " to " + high;
}

bool inside(const Range& range, double number) {
  return std::isfinite(number) && number >= range.low && number <= range.high &&
         !(range.without_low && number == range.low) &&
         !(range.without_high && number == range.high);
}

bool has_control_characters(const std::string& text) {
  return std::any_of(text.begin(), text.end(), [](char letter) {
    const auto code = static_cast<unsigned char>(letter);
    return code < 0x20 || code == 0x7f;
  });
}

// So that a printed recipe has no line that is too long to be read.
constexpr std::size_t kLongestText = 1000;
constexpr std::size_t kLongestList = 100;

bool is_text(const std::string& text) {
  return text.size() <= kLongestText && !has_control_characters(text);
}

std::string text_of(const Number& number) {
  return std::visit(
      Overloaded{[](std::int64_t n) { return std::to_string(n); },
                 [](double n) { return std::isfinite(n) ? decimal(n) : std::to_string(n); }},
      number);
}

template <class T>
std::string text_of_list(const std::vector<T>& list) {
  std::vector<std::string> elements;
  for (const T& element : list) {
    if constexpr (std::is_same_v<T, std::string>)
      elements.push_back(quoted(element));
    else
      elements.push_back(text_of(Number(element)));
  }
  return "[" + listed(elements) + "]";
}

std::string found(const Value& value) {
  return std::visit(
      Overloaded{[](bool yes) { return std::string(yes ? "true" : "false"); },
                 [](std::int64_t n) { return text_of(Number(n)); },
                 [](double n) { return text_of(Number(n)); },
                 [](const std::string& text) { return "the text '" + shown(text) + "'"; },
                 [](const std::vector<Number>& list) {
                   std::string text = "[";
                   for (const Number& n : list) text += (text.size() == 1 ? "" : ", ") + text_of(n);
                   return "the list " + shown(text + "]");
                 },
                 [](const std::vector<std::string>& list) {
                   return "the list " + shown(text_of_list(list));
                 },
                 [](const Other& other) { return other.what; }},
      value);
}

/// 1e3 is a whole number; 64.5 is not.
std::optional<std::int64_t> whole(const Number& number) {
  constexpr double kMostExact = 9007199254740992;  // 2^53
  if (const auto* exactly = std::get_if<std::int64_t>(&number)) return *exactly;
  const double value = std::get<double>(number);
  if (!(std::abs(value) <= kMostExact) || std::trunc(value) != value) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

/// A number of type T in the field's range, or nothing.
template <class T>
std::optional<T> number_in(const Range& range, const Number& number) {
  const double approximately = std::visit([](auto n) { return static_cast<double>(n); }, number);
  if (!inside(range, approximately)) return std::nullopt;
  if constexpr (std::is_integral_v<T>) {
    const auto exactly = whole(number);
    if (!exactly || !std::in_range<T>(*exactly)) return std::nullopt;
    return static_cast<T>(*exactly);
  } else {
    return approximately + 0.0;  // -0.0 becomes 0.0
  }
}

/// Each returns whether the target took the value.
struct Assign {
  const Value& value;
  const Range& range;

  bool operator()(bool* target) const {
    const auto* yes = std::get_if<bool>(&value);
    if (yes) *target = *yes;
    return yes != nullptr;
  }

  template <class T>
  bool operator()(T* target) const {
    std::optional<T> number;
    if (const auto* n = std::get_if<std::int64_t>(&value)) number = number_in<T>(range, *n);
    if (const auto* x = std::get_if<double>(&value)) number = number_in<T>(range, *x);
    if (number) *target = *number;
    return number.has_value();
  }

  template <class T>
  bool operator()(std::vector<T>* target) const {
    const auto* list = std::get_if<std::vector<Number>>(&value);
    if (!list || list->size() > kLongestList) return false;
    std::vector<T> numbers;
    for (const Number& element : *list) {
      const auto number = number_in<T>(range, element);
      if (!number) return false;
      numbers.push_back(*number);
    }
    *target = numbers;
    return true;
  }

  bool operator()(std::vector<std::string>* target) const {
    const auto* numbers = std::get_if<std::vector<Number>>(&value);
    const auto* texts = std::get_if<std::vector<std::string>>(&value);
    if (numbers && numbers->empty()) target->clear();
    if (!texts) return numbers && numbers->empty();
    std::string together;
    for (const std::string& text : *texts) together += text;
    if (texts->size() > kLongestList || !is_text(together)) return false;
    *target = *texts;
    return true;
  }

  bool operator()(std::string* target) const {
    const auto* text = std::get_if<std::string>(&value);
    if (!text || !is_text(*text)) return false;
    *target = *text;
    return true;
  }

  bool operator()(const Choice& choice) const {
    const auto* text = std::get_if<std::string>(&value);
    if (!text) return false;
    const auto word = std::find(choice.words.begin(), choice.words.end(), *text);
    if (word == choice.words.end()) return false;
    choice.choose(static_cast<std::size_t>(word - choice.words.begin()));
    return true;
  }
};

}  // namespace

std::string decimal(double number) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number).ptr;
  std::string text(buffer, end);
  const std::size_t exponent = text.find('e');
  if (exponent == std::string::npos) {
    const bool beyond_integers = std::abs(number) > 9e15;  // TOML would read it as one
    return beyond_integers ? text + ".0" : text;
  }
  // 1e-04 and 1e+05 as 1e-4 and 1e5
  std::size_t digits = exponent + 2;
  while (digits + 1 < text.size() && text[digits] == '0') ++digits;
  return text.substr(0, exponent + 1) + (text[exponent + 1] == '-' ? "-" : "") +
         text.substr(digits);
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    if (code < 0x20 || code == 0x7f) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04X", code);
      result += escaped;
    } else {
      if (letter == '"' || letter == '\\') result += '\\';
      result += letter;
    }
  }
  return result + "\"";
}

std::string allowed(const Field& field) {
  const std::string within = limits(field.range);
  const std::string list_of = "a list of at most " + std::to_string(kLongestList) + " ";
  return std::visit(
      Overloaded{[](bool*) { return std::string("true or false"); },
                 [&](double*) { return "a number" + within; },
                 [](std::string*) { return std::string("a text"); },
                 [&](std::vector<std::int64_t>*) { return list_of + "integers" + within; },
                 [&](std::vector<double>*) { return list_of + "numbers" + within; },
                 [&](std::vector<std::string>*) { return list_of + "texts"; },
                 [](const Choice& choice) { return "one of " + listed(choice.words); },
                 [&](auto*) { return "an integer" + within; }},
      field.target);
}

std::string text_of(const Field& field) {
  return std::visit(
      Overloaded{[](bool* target) { return std::string(*target ? "true" : "false"); },
                 [](double* target) { return decimal(*target); },
                 [](std::string* target) { return quoted(*target); },
                 [](std::vector<std::int64_t>* target) { return text_of_list(*target); },
                 [](std::vector<double>* target) { return text_of_list(*target); },
                 [](std::vector<std::string>* target) { return text_of_list(*target); },
                 [](const Choice& choice) { return quoted(choice.words[choice.chosen()]); },
                 [](auto* target) { return std::to_string(*target); }},
      field.target);
}

std::string assign(const Field& field, const Value& value) {
  if (std::visit(Assign{value, field.range}, field.target)) return "";
  std::string message = "found " + found(value) + "; allowed: " + allowed(field);
  const auto* choice = std::get_if<Choice>(&field.target);
  const auto* text = std::get_if<std::string>(&value);
  if (choice && text) message += did_you_mean(*text, choice->words);
  if (text && std::holds_alternative<std::string*>(field.target))
    message += " of at most " + std::to_string(kLongestText) + " bytes without control characters";
  if (std::holds_alternative<std::vector<std::string>>(value) &&
      std::holds_alternative<std::vector<std::string>*>(field.target))
    message += " of at most " + std::to_string(kLongestText) +
               " bytes together, without control characters";
  return message;
}

}  // namespace lockstep::apps
