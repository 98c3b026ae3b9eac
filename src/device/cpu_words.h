#pragma once

#include <string>

namespace lockstep::device {

/// The maker of this machine's CPU, and which of the instruction sets it has that libraries choose
/// their code by. Where these words are the same, so are the bits that are computed.
std::string cpu_words();

}  // namespace lockstep::device
