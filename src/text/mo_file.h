#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::text {

/// A compiled gettext catalogue: its messages as their bytes are, plural forms parted by zeros.
/// Strings of revision 1 that depend on the system are left out.
class MoFile {
 public:
  struct Message {
    std::string_view original;
    std::string_view translation;
    std::uint64_t offset;  ///< of the original
  };

  /// Reads the file. Throws IoError, or CorruptFile when it is no catalogue.
  explicit MoFile(std::string path);

  std::size_t size() const { return count_; }
  Message operator[](std::size_t index) const;  ///< throws CorruptFile when it is not in the file

  /// What the header says that the bytes are; empty when it does not say.
  std::string charset() const;

  const std::string& path() const { return path_; }

 private:
  struct Entry {
    std::uint32_t length;
    std::uint32_t offset;
  };
  std::uint32_t number(std::uint64_t offset) const;
  Entry entry(std::uint64_t table, std::size_t index) const;
  std::string_view text(const Entry& entry) const;
  void check_total() const;

  const std::string path_;
  const std::vector<std::uint8_t> bytes_;
  bool big_endian_ = false;
  std::size_t count_ = 0;
  std::uint32_t originals_ = 0;     ///< where the table is
  std::uint32_t translations_ = 0;  ///< the same
};

}  // namespace lockstep::text
