#include "text/mo_file.h"

#include <lockstep/error.h>

#include <algorithm>
#include <cctype>

#include "base/file.h"
#include "text/pair_rules.h"

namespace lockstep::text {
namespace {

constexpr std::uint64_t kMostMoBytes = std::uint64_t{256} << 20U;
constexpr std::uint64_t kEntryBytes = 8;

}  // namespace

MoFile::MoFile(std::string path)
    : path_(std::move(path)), bytes_(base::read_bytes(path_, kMostMoBytes)) {
  constexpr std::uint32_t kMagic = 0x950412de, kSwapped = 0xde120495;
  const bool cut = bytes_.size() < sizeof kMagic;
  const std::uint32_t magic = cut ? 0 : number(0);
  if (magic != kMagic && magic != kSwapped)
    throw CorruptFile(path_, 0, "a compiled gettext catalogue (what msgfmt writes)");
  big_endian_ = magic == kSwapped;
  const std::uint32_t revision = number(4);
  if (revision >> 16U > 1 || (revision & 0xffffU) > 1)
    throw CorruptFile(path_, 4,
                      "revision 0 or 1 of the format, not " + std::to_string(revision >> 16U) +
                          "." + std::to_string(revision & 0xffffU));
  count_ = number(8);
  originals_ = number(12);
  translations_ = number(16);
  for (const std::uint64_t table : {originals_, translations_})
    if (table + kEntryBytes * count_ > bytes_.size())
      throw CorruptFile(path_, 8, "a table of " + std::to_string(count_) + " messages in the file");
  check_total();
}

std::uint32_t MoFile::number(std::uint64_t offset) const {
  if (offset + 4 > bytes_.size())
    throw CorruptFile(path_, bytes_.size(), "the rest of a catalogue's header");
  std::uint32_t value = 0;
  for (std::uint64_t i = 0; i < 4; ++i)
    value = value << 8U | bytes_[offset + (big_endian_ ? i : 3 - i)];
  return value;
}

MoFile::Entry MoFile::entry(std::uint64_t table, std::size_t index) const {
  const std::uint64_t at = table + kEntryBytes * index;
  return {number(at), number(at + 4)};
}

/// Without this, a small file could name one long text many times and take hours to read.
void MoFile::check_total() const {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < count_; ++i)
    total += std::uint64_t{entry(originals_, i).length} + entry(translations_, i).length;
  if (total > 2 * bytes_.size())
    throw CorruptFile(path_, originals_, "messages that are not longer in all than the file");
}

std::string_view MoFile::text(const Entry& entry) const {
  const std::uint64_t end = std::uint64_t{entry.offset} + entry.length;
  if (end >= bytes_.size() || bytes_[end] != 0)
    throw CorruptFile(path_, entry.offset,
                      "a text of " + std::to_string(entry.length) + " bytes, and a zero after it");
  if (entry.length > kMostTextBytes)
    throw CorruptFile(path_, entry.offset,
                      "messages of at most " + std::to_string(kMostTextBytes) + " bytes");
  return {reinterpret_cast<const char*>(bytes_.data()) + entry.offset, entry.length};
}

MoFile::Message MoFile::operator[](std::size_t index) const {
  const Entry original = entry(originals_, index);
  return {text(original), text(entry(translations_, index)), original.offset};
}

std::string MoFile::charset() const {
  constexpr std::string_view kField = "charset=";
  const auto belongs = [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) ||
           std::string_view("-_.:+").find(letter) != std::string_view::npos;
  };
  for (std::size_t i = 0; i < count_; ++i) {
    const Message message = (*this)[i];
    if (!message.original.empty()) continue;
    const std::size_t field = message.translation.find(kField);
    if (field == std::string_view::npos) return "";
    const std::string_view rest = message.translation.substr(field + kField.size());
    return {rest.begin(), std::find_if_not(rest.begin(), rest.end(), belongs)};
  }
  return "";
}

}  // namespace lockstep::text
