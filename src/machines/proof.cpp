#include "machines/proof.h"

#include <lockstep/error.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string_view>

namespace lockstep::machines {
namespace {

constexpr std::string_view kName = "lockstep group\r\n";
static_assert(kName.size() == kNameBytes);

Nonce random_nonce() {
  Nonce nonce;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), static_cast<int>(nonce.size())) !=
      1)
    throw std::runtime_error("libcrypto has no random numbers");
  return nonce;
}

Proof proof_of(std::string_view whose, const std::string& secret, const Nonce& hub,
               const Nonce& machine) {
  std::string text(whose);
  text.append(reinterpret_cast<const char*>(hub.data()), hub.size());
  text.append(reinterpret_cast<const char*>(machine.data()), machine.size());
  Proof proof;
  unsigned size = proof.size();
  if (!HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
            reinterpret_cast<const unsigned char*>(text.data()), text.size(),
            reinterpret_cast<unsigned char*>(proof.data()), &size))
    throw std::runtime_error("libcrypto cannot compute HMAC-SHA256");
  return proof;
}

bool same(std::span<const std::byte> a, const Proof& b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), b.size()) == 0;
}

Nonce nonce_of(std::span<const std::byte> said) {
  Nonce nonce;
  std::memcpy(nonce.data(), said.data() + kNameBytes, nonce.size());
  return nonce;
}

/// The protocol's name and a random number, at the beginning of `text`.
void open_with(std::span<std::byte> text, const Nonce& nonce) {
  std::memcpy(text.data(), kName.data(), kName.size());
  std::memcpy(text.data() + kName.size(), nonce.data(), nonce.size());
}

bool begins_like_us(std::span<const std::byte> said) {
  return std::memcmp(said.data(), kName.data(), std::min(said.size(), kName.size())) == 0;
}

/// Receives exactly that many bytes.
void receive_all(const Socket& socket, std::span<std::byte> into, Clock::time_point deadline) {
  while (!into.empty()) {
    pollfd ready = {.fd = socket.handle(), .events = POLLIN, .revents = 0};
    const int found = poll(&ready, 1, milliseconds_until(deadline));
    if (found == 0) throw std::runtime_error("it said nothing");
    const ssize_t count = recv(socket.handle(), into.data(), into.size(), MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR))
      throw std::runtime_error("it closed the connection");
    if (count > 0) into = into.subspan(static_cast<std::size_t>(count));
  }
}

}  // namespace

Challenge::Challenge(const std::string& secret) : secret_(secret), nonce_(random_nonce()) {}

std::array<std::byte, kChallengeBytes> Challenge::text() const {
  std::array<std::byte, kChallengeBytes> text;
  open_with(text, nonce_);
  return text;
}

Challenge::Finding Challenge::judge(std::span<const std::byte> said) const {
  if (!begins_like_us(said)) return Finding::stranger;
  if (said.size() < kAnswerBytes) return Finding::open;
  const Proof expected = proof_of("machine", secret_, nonce_, nonce_of(said));
  return same(said.subspan(kChallengeBytes), expected) ? Finding::good : Finding::wrong_secret;
}

std::array<std::byte, kVerdictBytes> Challenge::verdict(std::span<const std::byte> answer) const {
  std::array<std::byte, kVerdictBytes> text = {};
  const bool good = judge(answer) == Finding::good;
  text[0] = static_cast<std::byte>(good ? 'y' : 'n');
  if (!good) return text;
  const Proof proof = proof_of("hub", secret_, nonce_, nonce_of(answer));
  std::memcpy(text.data() + 1, proof.data(), proof.size());
  return text;
}

Answer::Answer(const std::string& secret, std::span<const std::byte> challenge)
    : secret_(secret), mine_(random_nonce()) {
  if (challenge.size() != kChallengeBytes || !begins_like_us(challenge))
    throw std::runtime_error("another program answers there");
  theirs_ = nonce_of(challenge);
}

std::array<std::byte, kAnswerBytes> Answer::text() const {
  std::array<std::byte, kAnswerBytes> text;
  open_with(text, mine_);
  const Proof proof = proof_of("machine", secret_, theirs_, mine_);
  std::memcpy(text.data() + kChallengeBytes, proof.data(), proof.size());
  return text;
}

bool Answer::is_proven_by(std::span<const std::byte> verdict) const {
  return verdict.size() == kVerdictBytes && verdict[0] == static_cast<std::byte>('y') &&
         same(verdict.subspan(1), proof_of("hub", secret_, theirs_, mine_));
}

void prove(const Socket& socket, const std::string& secret, const std::string& where,
           Clock::time_point deadline) {
  std::array<std::byte, kChallengeBytes> challenge;
  receive_all(socket, challenge, deadline);
  const Answer answer(secret, challenge);
  const auto text = answer.text();
  if (::send(socket.handle(), text.data(), text.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(text.size()))
    throw std::runtime_error("it closed the connection");
  std::array<std::byte, kVerdictBytes> verdict;
  receive_all(socket, verdict, deadline);
  if (!answer.is_proven_by(verdict))
    throw ConfigError("the first machine at " + where +
                      " has another secret: set LOCKSTEP_SECRET to the same on all machines");
}

}  // namespace lockstep::machines
