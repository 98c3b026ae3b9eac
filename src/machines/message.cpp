#include "machines/message.h"

#include <bit>
#include <cstring>

namespace lockstep::machines {
namespace {

static_assert(std::endian::native == std::endian::little, "messages are little-endian");

constexpr std::size_t kMostPlain = std::size_t{1} << 20U;

}  // namespace

std::pair<MessageKind, std::size_t> head_of(std::span<const std::byte> head) {
  std::uint32_t size = 0, kind = 0;
  std::memcpy(&size, head.data(), sizeof size);
  std::memcpy(&kind, head.data() + sizeof size, sizeof kind);
  if (kind < static_cast<std::uint32_t>(MessageKind::beat) ||
      kind > static_cast<std::uint32_t>(MessageKind::bye))
    throw BadMessage("a message of an unknown kind came");
  const auto known = static_cast<MessageKind>(kind);
  const bool large = known == MessageKind::gather || known == MessageKind::gathered;
  if (size > (large ? kMostGathered + kMostPlain : kMostPlain))
    throw BadMessage("a message came that is longer than any may be");
  return {known, size};
}

Writer::Writer(MessageKind kind) : bytes_(kHeadBytes) {
  const auto value = static_cast<std::uint32_t>(kind);
  std::memcpy(bytes_.data() + 4, &value, sizeof value);
}

Writer& Writer::number(std::uint64_t value) {
  const auto view = std::as_bytes(std::span(&value, 1));
  bytes_.insert(bytes_.end(), view.begin(), view.end());
  return *this;
}

Writer& Writer::texts(const std::vector<std::string>& values) {
  number(values.size());
  for (const std::string& value : values) text(value);
  return *this;
}

Writer& Writer::bytes(std::span<const std::byte> value) {
  number(value.size());
  bytes_.insert(bytes_.end(), value.begin(), value.end());
  return *this;
}

Packed Writer::done() {
  const auto size = static_cast<std::uint32_t>(bytes_.size() - kHeadBytes);
  std::memcpy(bytes_.data(), &size, sizeof size);
  return std::make_shared<const Bytes>(std::move(bytes_));
}

std::span<const std::byte> Reader::take(std::size_t size) {
  if (size > rest_.size()) throw BadMessage("a message ended too early");
  const auto taken = rest_.first(size);
  rest_ = rest_.subspan(size);
  return taken;
}

std::uint64_t Reader::number() {
  std::uint64_t value = 0;
  std::memcpy(&value, take(sizeof value).data(), sizeof value);
  return value;
}

std::span<const std::byte> Reader::bytes() { return take(number()); }

std::string Reader::text() {
  const auto view = bytes();
  return {reinterpret_cast<const char*>(view.data()), view.size()};
}

std::vector<std::string> Reader::texts() {
  std::vector<std::string> values;
  for (std::uint64_t left = number(); left > 0; --left) values.push_back(text());
  return values;
}

Packed pack_trouble(std::int64_t generation, const Trouble& trouble) {
  return Writer(MessageKind::trouble)
      .number(static_cast<std::uint64_t>(generation))
      .texts(trouble.lost)
      .text(trouble.failed)
      .text(trouble.why)
      .done();
}

Trouble read_trouble(Reader& reader) {
  Trouble trouble;
  trouble.lost = reader.texts();
  trouble.failed = reader.text();
  trouble.why = reader.text();
  return trouble;
}

}  // namespace lockstep::machines
