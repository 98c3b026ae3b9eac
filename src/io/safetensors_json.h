#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "io/safetensors.h"

namespace lockstep::io {

/// Reads the JSON of a safetensors header, which begins at byte `offset` of `path`: its form, its
/// dtypes and unique names. Whether the bytes of the tensors fit is for the caller; data_begin is
/// left 0. Stops at the first thing that has no place there, so depth and memory are bounded.
SafetensorsHeader parse_header_json(const std::string& path, std::uint64_t offset,
                                    std::span<const std::byte> text);

/// A name from a file for a message: quoted, cut to a line, with nothing a terminal would obey.
std::string readable(const std::string& name);

}  // namespace lockstep::io
