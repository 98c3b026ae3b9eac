#include <lockstep/text/bleu.h>

#include <initializer_list>

namespace lockstep::text {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_stop(char c) { return c == '.' || c == ','; }

/// Always a word of its own: all of ASCII's punctuation but ' - . and the comma.
bool is_symbol(char c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') ||
         (c >= '(' && c <= '+') || (c >= ':' && c <= '@') || c == '/';
}

/// The bytes of the white space that `text` begins with, by Unicode; 0: it begins with none.
std::size_t space_length(std::string_view text) {
  const char c = text[0];
  if (c == ' ' || (c >= '\t' && c <= '\r') || (c >= '\x1c' && c <= '\x1f')) return 1;
  if (static_cast<unsigned char>(c) < 0x80) return 0;
  for (const char* space :
       {"\u0085", "\u00a0", "\u1680", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"})
    if (text.starts_with(space)) return std::string_view(space).size();
  return text >= "\u2000" && text < "\u200b" ? 3 : 0;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

/// Without what is no text: marks of skipped parts, line ends, entities. In this order, since
/// &amp;lt; becomes < but &amp;quot; stays &quot;.
std::string cleaned(std::string_view text) {
  std::string result(text);
  replace_all(result, "<skipped>", "");
  replace_all(result, "-\n", "");
  replace_all(result, "\n", " ");
  replace_all(result, "&quot;", "\"");
  replace_all(result, "&amp;", "&");
  replace_all(result, "&lt;", "<");
  replace_all(result, "&gt;", ">");
  return result;
}

std::string spaced_symbols(std::string_view text) {
  std::string result = " ";
  for (const char c : text) {
    if (is_symbol(c)) {
      result += {' ', c, ' '};
    } else {
      result += c;
    }
  }
  return result + ' ';
}

/// Two letters that `matches` says yes to are written by `write`, and the search goes on after
/// both: what a regular expression of two classes finds. UTF-8 may be searched by bytes, since the
/// classes are of ASCII letters or of all others.
template <class Matches, class Write>
std::string pairs_rewritten(std::string_view text, Matches matches, Write write) {
  std::string result;
  result.reserve(2 * text.size());
  std::size_t i = 0;
  for (; i + 1 < text.size(); ++i) {
    if (matches(text[i], text[i + 1])) {
      write(result, text[i], text[i + 1]);
      ++i;
    } else {
      result += text[i];
    }
  }
  if (i < text.size()) result += text[i];
  return result;
}

std::string spaced(std::string_view text) {
  std::string result = spaced_symbols(text);
  const auto apart_after = [](std::string& out, char a, char b) { out += {a, ' ', b, ' '}; };
  result = pairs_rewritten(
      result, [](char a, char b) { return !is_digit(a) && is_stop(b); }, apart_after);
  result = pairs_rewritten(
      result, [](char a, char b) { return is_stop(a) && !is_digit(b); },
      [](std::string& out, char a, char b) {
        out += {' ', a, ' ', b};
      });
  return pairs_rewritten(
      result, [](char a, char b) { return is_digit(a) && b == '-'; }, apart_after);
}

std::string_view without_end_space(std::string_view text) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t space = space_length(text.substr(i));
    i += space ? space : 1;
    if (!space) end = i;
  }
  return text.substr(0, end);
}

}  // namespace

std::vector<std::string> bleu_words(std::string_view text) {
  const std::string line = spaced(cleaned(without_end_space(text)));
  std::vector<std::string> words;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < line.size();) {
    const std::size_t space = space_length(std::string_view(line).substr(i));
    if (space && i > begin) words.push_back(line.substr(begin, i - begin));
    i += space ? space : 1;
    if (space) begin = i;
  }
  return words;  // the line ends with a space
}

}  // namespace lockstep::text
