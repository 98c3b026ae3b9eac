#include "vision/data_files.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "base/utf8.h"

namespace lockstep::vision {
namespace {

constexpr std::string_view kWhiteSpace = " \t\r\n\v\f";
constexpr double kMostExact = 9007199254740992;  // 2^53

}  // namespace

bool path_exists(const std::string& path) {
  std::error_code unknown;
  return std::filesystem::exists(path, unknown);
}

bool folder_exists(const std::string& path) {
  std::error_code unknown;
  return std::filesystem::is_directory(path, unknown);
}

bool file_exists(const std::string& path) {
  std::error_code unknown;
  return std::filesystem::is_regular_file(path, unknown);
}

bool has_picture_suffix(const std::string& path) {
  std::string suffix = std::filesystem::path(path).extension().string();
  for (char& letter : suffix)
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return suffix == ".jpg" || suffix == ".jpeg" || suffix == ".png";
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kWhiteSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kWhiteSpace) - begin + 1);
}

std::vector<std::string_view> split_words(std::string_view line) {
  std::vector<std::string_view> found;
  for (line = trimmed(line); !line.empty(); line = trimmed(line)) {
    const std::size_t end = std::min(line.find_first_of(kWhiteSpace), line.size());
    found.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  return found;
}

std::optional<double> to_number(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double number = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return number;
}

std::optional<std::int64_t> to_whole(std::string_view text) {
  const auto number = to_number(text);
  if (!number || !(std::abs(*number) <= kMostExact) || std::trunc(*number) != *number)
    return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

void for_each_line(std::string_view text,
                   const std::function<void(std::string_view line, std::int64_t number)>& sink) {
  if (text.starts_with(base::kByteOrderMark)) text.remove_prefix(base::kByteOrderMark.size());
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view line = trimmed(text.substr(0, end));
    if (!line.empty()) sink(line, number);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

}  // namespace lockstep::vision
