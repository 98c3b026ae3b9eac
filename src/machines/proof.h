#pragma once

// How two machines show each other that they know the secret, before anything else is read.
//
//   hub      the name of the protocol, 32 random bytes
//   machine  the name of the protocol, 32 random bytes, its proof
//   hub      'y', its proof; or 'n' and zeros
//
// A proof is the HMAC-SHA256, keyed with the secret, of whose it is and of both random numbers.

#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "machines/socket.h"

namespace lockstep::machines {

using Nonce = std::array<std::byte, 32>;
using Proof = std::array<std::byte, 32>;

inline constexpr std::size_t kNameBytes = 16;
inline constexpr std::size_t kChallengeBytes = kNameBytes + sizeof(Nonce);
inline constexpr std::size_t kAnswerBytes = kChallengeBytes + sizeof(Proof);
inline constexpr std::size_t kVerdictBytes = 1 + sizeof(Proof);

/// The hub's side, for one who has connected.
class Challenge {
 public:
  explicit Challenge(const std::string& secret);

  /// What the hub says first.
  std::array<std::byte, kChallengeBytes> text() const;

  enum class Finding { open, good, wrong_secret, stranger };

  /// What is known of somebody who has said `said` so far, at most kAnswerBytes.
  Finding judge(std::span<const std::byte> said) const;

  /// What the hub says to a whole answer.
  std::array<std::byte, kVerdictBytes> verdict(std::span<const std::byte> answer) const;

 private:
  const std::string secret_;
  Nonce nonce_;
};

/// The machine's side: what it says to a challenge, and whether the hub knows the secret too.
class Answer {
 public:
  /// Throws std::runtime_error when it is no hub of this program that speaks.
  Answer(const std::string& secret, std::span<const std::byte> challenge);

  std::array<std::byte, kAnswerBytes> text() const;
  bool is_proven_by(std::span<const std::byte> verdict) const;

 private:
  const std::string secret_;
  Nonce theirs_;
  Nonce mine_;
};

/// The machine's side over a connected socket that does not block. Throws ConfigError when the
/// secrets differ, std::runtime_error when the other side is no hub or says nothing.
void prove(const Socket& socket, const std::string& secret, const std::string& where,
           Clock::time_point deadline);

}  // namespace lockstep::machines
