#pragma once

// What the machines and the first machine's hub say to each other. A message is 8 bytes (the length
// of the body, the kind) and a body of little-endian numbers, texts and bytes with their lengths.

#include <lockstep/machines.h>

#include <memory>
#include <stdexcept>
#include <string_view>

namespace lockstep::machines {

/// Counted up when messages change: machines of two versions refuse each other.
inline constexpr std::uint64_t kProtocol = 2;

enum class MessageKind : std::uint8_t {
  beat = 1,  ///< a sign of life
  // To the hub:
  hello,    ///< protocol, number, machines, name, address, transport
  gather,   ///< generation, round, bytes
  abort,    ///< generation, why
  missed,   ///< generation, rank: the connection to it broke
  apart,    ///< generation, rank, why: so it did, and the machine is still there
  regroup,  ///< generation
  // From the hub:
  wait,      ///< whether a group is at work, who is missing
  refused,   ///< whether the user can fix it, who is missing, why
  group,     ///< generation, members: number, name, address
  gathered,  ///< generation, round, bytes of each rank
  trouble,   ///< generation, lost, failed, why
  // Both:
  set,  ///< generation, key, value: the hub passes it on to all
  bye,
};

/// The most that an all-gather may bring together, on all machines.
inline constexpr std::size_t kMostGathered = std::size_t{1} << 30U;

/// What came is not what a machine of this version says.
struct BadMessage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Message {
  MessageKind kind = MessageKind::beat;
  Bytes body = {};
};

/// A message as it is sent; several connections may share one.
using Packed = std::shared_ptr<const Bytes>;

inline constexpr std::size_t kHeadBytes = 8;

/// The kind and the body's length. Throws BadMessage for kinds that there are not, and for lengths
/// beyond what is allowed.
std::pair<MessageKind, std::size_t> head_of(std::span<const std::byte> head);

/// Writes a message's body.
class Writer {
 public:
  explicit Writer(MessageKind kind);

  Writer& number(std::uint64_t value);
  Writer& text(std::string_view value) { return bytes(std::as_bytes(std::span(value))); }
  Writer& texts(const std::vector<std::string>& values);
  Writer& bytes(std::span<const std::byte> value);

  /// Last.
  Packed done();

 private:
  Bytes bytes_;
};

/// Reads a body in the order in which it was written. Throws BadMessage when it ends too early.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> body) : rest_(body) {}

  std::uint64_t number();
  std::int64_t generation() { return static_cast<std::int64_t>(number()); }
  std::string text();
  std::vector<std::string> texts();
  std::span<const std::byte> bytes();

 private:
  std::span<const std::byte> take(std::size_t size);

  std::span<const std::byte> rest_;
};

Packed pack_trouble(std::int64_t generation, const Trouble& trouble);
Trouble read_trouble(Reader& reader);

}  // namespace lockstep::machines
