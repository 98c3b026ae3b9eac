#include "machines/host_list.h"

#include <algorithm>
#include <regex>

namespace lockstep::machines {
namespace {

/// Cuts at commas that are not between brackets.
std::vector<std::string> cut(const std::string& list) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : list) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth == 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

std::string padded(int number, std::size_t digits) {
  std::string text = std::to_string(number);
  if (text.size() < digits) text.insert(0, digits - text.size(), '0');
  return text;
}

}  // namespace

std::string first_of_slurm(const std::string& list) {
  static const std::regex kBrackets(R"(\[(\w+)[^\]]*\])");
  return std::regex_replace(cut(list).front(), kBrackets, "$1");
}

std::optional<std::vector<std::string>> hosts_of_openmpi(const std::string& list) {
  static const std::regex kNumbered(R"(([^\[\]]*)\[(\d):([\d,-]+)\]([^\[\]]*))");
  static const std::regex kRange(R"((\d{1,9})(?:-(\d{1,9}))?)");
  std::vector<std::string> hosts;
  for (const std::string& part : cut(list.substr(0, list.find('@')))) {
    std::smatch parts;
    if (!std::regex_match(part, parts, kNumbered)) {
      if (part.empty() || part.find('[') != std::string::npos) return std::nullopt;
      hosts.push_back(part);
      continue;
    }
    for (const std::string& text : cut(parts[3])) {
      std::smatch range;
      if (!std::regex_match(text, range, kRange)) return std::nullopt;
      const int begin = std::stoi(range[1]), end = range[2].matched ? std::stoi(range[2]) : begin;
      if (end - begin > 1000000) return std::nullopt;
      for (int number = begin; number <= end; ++number)
        hosts.push_back(parts[1].str() + padded(number, std::stoul(parts[2])) + parts[4].str());
    }
  }
  return hosts;
}

int most_tasks_of_slurm(const std::string& counts) {
  static const std::regex kCount(R"((\d{1,6})(?:\(x\d+\))?)");
  int most = 0;
  for (const std::string& part : cut(counts)) {
    std::smatch count;
    if (!std::regex_match(part, count, kCount)) return 0;
    most = std::max(most, std::stoi(count[1]));
  }
  return most;
}

}  // namespace lockstep::machines
