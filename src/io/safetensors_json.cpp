#include "io/safetensors_json.h"

#include <lockstep/error.h>

#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

namespace lockstep::io {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostDimensions = 64;
constexpr const char* kMetadata = "__metadata__";

/// Walks over the text and leaves word of how far: the parser does not tell its handler.
class Cursor {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Cursor(const char* at, const char** reached) : at_(at), reached_(reached) {}
  reference operator*() const { return *at_; }
  Cursor& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  Cursor operator++(int) {
    const Cursor before = *this;
    ++*this;
    return before;
  }
  bool operator==(const Cursor& other) const { return at_ == other.at_; }
  bool operator!=(const Cursor& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** reached_;
};

/// Takes the parser's events. The header has one form, {"name": {"dtype": "F32", "shape": [2, 3],
/// "data_offsets": [0, 24]}, ..., "__metadata__": {"key": "text"}}: anything else throws.
class HeaderEvents : public nlohmann::json_sax<Json> {
 public:
  HeaderEvents(std::string path, std::uint64_t offset, const char* text)
      : path_(std::move(path)), offset_(offset), text_(text), reached_(text) {}

  const char** reached() { return &reached_; }
  SafetensorsHeader take() { return std::move(header_); }

  bool null() override { fail(); }
  bool boolean(bool) override { fail(); }
  bool number_integer(number_integer_t) override { fail(); }  // only negative ones come here
  bool number_float(number_float_t, const string_t&) override { fail(); }  // too large ones too
  bool binary(binary_t&) override { fail(); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::shape) {
      constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
      if (value > static_cast<std::uint64_t>(kMost)) fail("a size of less than 2^63");
      if (tensor_.shape.size() == kMostDimensions) fail("at most 64 dimensions");
      tensor_.shape.push_back(static_cast<std::int64_t>(value));
    } else if (place_ == Place::offsets && offsets_ < 2) {
      (offsets_++ == 0 ? tensor_.begin : tensor_.end) = value;
    } else {
      fail();
    }
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::metadata) {
      header_.metadata[key_] = value;
    } else if (place_ == Place::tensor && key_ == "dtype") {
      if (!dtype_bytes(value)) fail("a dtype such as F32, found " + readable(value));
      tensor_.dtype = value;
    } else {
      fail();
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::start) {
      place_ = Place::top;
    } else if (place_ == Place::top) {
      place_ = key_ == kMetadata ? Place::metadata : Place::tensor;
      fields_.clear();
      tensor_ = {.name = key_, .dtype = {}, .shape = {}};
    } else {
      fail();
    }
    return true;
  }

  bool key(string_t& value) override {
    const bool is_new = place_ == Place::top        ? names_.insert(value).second
                        : place_ == Place::metadata ? !header_.metadata.contains(value)
                                                    : fields_.insert(value).second;
    if (!is_new) fail("a key only once, found " + readable(value) + " again");
    if (place_ == Place::tensor && value != "dtype" && value != "shape" && value != "data_offsets")
      fail("dtype, shape or data_offsets, found " + readable(value));
    key_ = value;
    return true;
  }

  bool end_object() override {
    if (place_ == Place::tensor) {
      if (fields_.size() != 3) fail("dtype, shape and data_offsets of " + readable(tensor_.name));
      header_.tensors.push_back(std::move(tensor_));
    }
    place_ = place_ == Place::top ? Place::end : Place::top;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::tensor || key_ == "dtype") fail();
    place_ = key_ == "shape" ? Place::shape : Place::offsets;
    offsets_ = 0;
    return true;
  }

  bool end_array() override {
    if (place_ == Place::offsets && offsets_ != 2) fail("two data_offsets");
    place_ = Place::tensor;
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const Json::exception&) override {
    fail("a header in JSON and UTF-8");
  }

 private:
  enum class Place { start, top, metadata, tensor, shape, offsets, end };

  [[noreturn]] void fail(const std::string& expected = "") const {
    const auto at = static_cast<std::uint64_t>(reached_ - text_);
    throw CorruptFile(path_, offset_ + (at == 0 ? 0 : at - 1),
                      expected.empty() ? wanted() : expected);
  }

  std::string wanted() const {
    switch (place_) {
      case Place::metadata:
        return "texts only in __metadata__";
      case Place::shape:
        return "sizes from 0 on in the shape of " + readable(tensor_.name);
      case Place::offsets:
        return "two data_offsets from 0 on for " + readable(tensor_.name);
      case Place::tensor:
        return key_ == "dtype" ? "a text as dtype of " + readable(tensor_.name)
                               : "a list as " + key_ + " of " + readable(tensor_.name);
      default:
        return "an object with dtype, shape and data_offsets a tensor";
    }
  }

  const std::string path_;
  const std::uint64_t offset_;
  const char* const text_;
  const char* reached_;
  Place place_ = Place::start;
  std::string key_;               // the last one read
  std::set<std::string> names_;   // keys of the header
  std::set<std::string> fields_;  // keys of tensor_
  TensorEntry tensor_;
  int offsets_ = 0;  // how many of tensor_ were read
  SafetensorsHeader header_;
};

}  // namespace

SafetensorsHeader parse_header_json(const std::string& path, std::uint64_t offset,
                                    std::span<const std::byte> text) {
  const auto* begin = reinterpret_cast<const char*>(text.data());
  HeaderEvents events(path, offset, begin);
  if (text.empty() || *begin != '{') throw CorruptFile(path, offset, "a JSON object");
  Json::sax_parse(Cursor(begin, events.reached()), Cursor(begin + text.size(), events.reached()),
                  &events);
  return events.take();
}

std::string readable(const std::string& name) {
  constexpr std::size_t kMost = 80;
  const bool cut = name.size() > kMost;
  return Json(cut ? name.substr(0, kMost) + "..." : name)
      .dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

}  // namespace lockstep::io
