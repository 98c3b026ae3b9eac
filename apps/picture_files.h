#pragma once

// The pictures that a user names on the command line.

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::apps {

/// Files as they are, folders with all their JPEG and PNG files (sub-folders too, by name), and
/// patterns with * and ?. Throws ConfigError for what is not there, and when there is no picture.
std::vector<std::string> picture_files(const std::vector<std::string>& named);

/// The bytes of a file. Throws IoError.
std::vector<std::uint8_t> read_picture(const std::string& path);

}  // namespace lockstep::apps
