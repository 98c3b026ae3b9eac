#pragma once

// The files of data sets: which there are, and the lines, words and numbers of small text files.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::vision {

/// A larger list, label or XML file is refused: it would be a file of another kind.
inline constexpr std::uint64_t kMostListBytes = std::uint64_t{256} << 20U;

bool path_exists(const std::string& path);
bool folder_exists(const std::string& path);
bool file_exists(const std::string& path);  ///< a link to a file counts

/// .jpg, .jpeg or .png, in small or capital letters.
bool has_picture_suffix(const std::string& path);

/// `text` without the white space around it.
std::string_view trimmed(std::string_view text);

/// The words between white space.
std::vector<std::string_view> split_words(std::string_view line);

/// A decimal number that is the whole text, white space aside; finite or not.
std::optional<double> to_number(std::string_view text);

/// The same without a fraction; "3.0" is 3.
std::optional<std::int64_t> to_whole(std::string_view text);

/// Calls `sink` with every line that has something in it, trimmed, and its number from 1.
void for_each_line(std::string_view text,
                   const std::function<void(std::string_view line, std::int64_t number)>& sink);

}  // namespace lockstep::vision
