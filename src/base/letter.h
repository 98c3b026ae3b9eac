#pragma once

// Values as bytes, one after the other: what goes from process to process. Numbers are written as
// they are in memory, for all machines of a training are alike.

#include <lockstep/error.h>

#include <cstddef>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace lockstep::base {

/// Written by put().
class Letter {
 public:
  void put(std::span<const std::byte> bytes) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + bytes.size());
    if (!bytes.empty()) std::memcpy(bytes_.data() + at, bytes.data(), bytes.size());
  }
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void put(const T& value) { put(std::as_bytes(std::span(&value, 1))); }
  void put(const std::string& text) { put_list(std::span(text)); }

  /// With its length.
  template <class T>
  void put_list(std::span<const T> values) {
    put(values.size());
    put(std::as_bytes(values));
  }

  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// Reads a letter in the order in which it was written. The bytes must live on. Throws
/// std::runtime_error at the end of them.
class LetterReader {
 public:
  explicit LetterReader(std::span<const std::byte> bytes) : left_(bytes) {}

  std::span<const std::byte> bytes(std::size_t count) {
    if (count > left_.size()) throw std::runtime_error("a message from another machine is cut off");
    const auto result = left_.first(count);
    left_ = left_.subspan(count);
    return result;
  }
  template <class T>
  T get() {
    T value{};
    std::memcpy(&value, bytes(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text() {
    const auto raw = bytes(get<std::size_t>());
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
  }
  template <class T>
  std::vector<T> list() {
    const auto count = get<std::size_t>();
    if (count > left_.size()) throw std::runtime_error("a message from another machine is cut off");
    std::vector<T> values(count);
    const auto raw = bytes(count * sizeof(T));
    if (!raw.empty()) std::memcpy(values.data(), raw.data(), raw.size());
    return values;
  }
  bool empty() const { return left_.empty(); }

 private:
  std::span<const std::byte> left_;
};

}  // namespace lockstep::base
