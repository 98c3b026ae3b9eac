#pragma once

// The framing of an event file: length, checksum of the length, data, checksum of the data.

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::events {

/// `data` as one record.
std::string record(std::string_view data);

/// The records in `bytes`, the content of the file `path`; views into `bytes`. Throws CorruptFile
/// with the offset of the first record that is cut short or altered: all before it are sound.
std::vector<std::string_view> read_records(const std::string& path, std::string_view bytes);

}  // namespace lockstep::events
