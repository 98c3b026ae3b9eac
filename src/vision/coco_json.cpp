#include "vision/coco_json.h"

#include <lockstep/error.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.h"
#include "base/utf8.h"
#include "vision/box_faults.h"

namespace lockstep::vision {
namespace {

constexpr double kMostWhole = 9007199254740992;  // 2^53: each whole number up to it is a double
constexpr std::size_t kMostJsonReason = 300;

/// Goes through bytes, and leaves behind where the parser is: at the last byte it took.
class TracedIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TracedIterator(const char* at, const char** taken) : at_(at), taken_(taken) {}

  reference operator*() const { return *at_; }
  TracedIterator& operator++() {
    *taken_ = at_++;
    return *this;
  }
  bool operator==(const TracedIterator& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  const char** taken_;
};

/// Makes records of the parser's events. It counts how deep it is, and keeps no stack.
class CocoHandler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  CocoHandler(const std::string& path, std::span<const std::byte> bytes,
              const std::function<void(const CocoRecord&)>& sink)
      : path_(path),
        begin_(reinterpret_cast<const char*>(bytes.data())),
        end_(begin_ + bytes.size()),
        sink_(sink),
        taken_(begin_),
        counted_(begin_) {}

  void parse() {
    nlohmann::json::sax_parse(TracedIterator(begin_, &taken_), TracedIterator(end_, &taken_), this);
    for (std::size_t list = 0; list < kCocoLists.size(); ++list)
      if (!found_[list])
        throw ConfigError(path_ + ": no \"" + kCocoLists[list] +
                          "\"; a data set in COCO's JSON has "
                          "the lists \"images\", \"annotations\" and \"categories\"");
  }

  bool null() override { return scalar({}); }
  bool boolean(bool value) override {
    return scalar({.kind = CocoValue::Kind::boolean, .whole = value ? 1 : 0});
  }
  bool number_integer(std::int64_t value) override { return whole(value); }
  bool number_unsigned(std::uint64_t value) override {
    return value <= static_cast<std::uint64_t>(kMostWhole)
               ? whole(static_cast<std::int64_t>(value))
               : scalar({.kind = CocoValue::Kind::number, .number = static_cast<double>(value)});
  }
  bool number_float(double value, const std::string&) override {
    if (is_ignored()) return true;
    if (std::abs(value) <= kMostWhole && std::trunc(value) == value)
      return whole(static_cast<std::int64_t>(value));
    return scalar({.kind = CocoValue::Kind::number, .number = value});
  }
  bool string(std::string& value) override {
    if (is_ignored()) return true;
    return scalar({.kind = CocoValue::Kind::text, .text = std::move(value)});
  }
  bool binary(nlohmann::json::binary_t&) override { return scalar({}); }

  bool start_object(std::size_t) override {
    if (depth_ == kInRoot) expect_no_list();
    if (depth_ == kInList && list_) begin_record();
    if (depth_ >= kInRecord) nested();
    ++depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ == 0) not_coco("a list");
    if (depth_ == kInRoot) list_ = wanted_;
    if (depth_ == kInList) not_an_object();
    if (depth_ == kInRecord && in_record_ && field_) {
      value() = {.kind = CocoValue::Kind::numbers, .line = line()};
      in_numbers_ = true;
    } else if (depth_ > kInRecord) {
      nested();
    }
    ++depth_;
    return true;
  }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool key(std::string& name) override;

  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::json::exception& error) override;

 private:
  // How many lists and objects are open: in the file's object, in one of its lists, in a record.
  static constexpr std::int64_t kInRoot = 1, kInList = 2, kInRecord = 3, kInNumbers = 4;

  bool scalar(CocoValue found);
  /// Most of a file: masks.
  bool is_ignored() const { return depth_ > kInList && !in_numbers_ && !(in_record_ && field_); }

  bool whole(std::int64_t value) {
    if (is_ignored()) return true;
    return scalar({.kind = std::abs(static_cast<double>(value)) <= kMostWhole
                               ? CocoValue::Kind::whole
                               : CocoValue::Kind::number,
                   .whole = value,
                   .number = static_cast<double>(value)});
  }
  bool end();
  void nested();
  void begin_record();
  void not_an_object();
  void expect_no_list() const;
  [[noreturn]] void not_coco(const std::string& found) const;

  CocoValue& value() { return record_.fields[static_cast<std::size_t>(*field_)]; }

  /// Of the byte that the parser took last.
  std::int64_t line() const {
    line_ += std::count(counted_, taken_, '\n');
    counted_ = taken_;
    return line_;
  }

  const std::string& path_;
  const char *const begin_, *const end_;
  const std::function<void(const CocoRecord&)>& sink_;

  const char* taken_;
  mutable const char* counted_;
  mutable std::int64_t line_ = 1;

  std::int64_t depth_ = 0;
  std::array<bool, kCocoLists.size()> found_ = {};
  std::optional<CocoList> wanted_, list_;  ///< whose value comes next; which one is open
  std::optional<CocoField> field_;
  bool in_record_ = false, in_numbers_ = false;
  CocoRecord record_;
};

bool CocoHandler::key(std::string& name) {
  if (depth_ == kInRoot) {
    wanted_.reset();
    for (std::size_t i = 0; i < kCocoLists.size(); ++i)
      if (name == kCocoLists[i]) {
        if (found_[i])
          throw ConfigError(path_ + ":" + std::to_string(line()) + ": \"" + name +
                            "\" for the second time; join the lists");
        found_[i] = true;
        wanted_ = static_cast<CocoList>(i);
        record_.index = -1;
      }
  } else if (depth_ == kInRecord && in_record_) {
    const auto found = std::find(kCocoFields.begin(), kCocoFields.end(), name);
    field_.reset();
    if (found != kCocoFields.end()) field_ = static_cast<CocoField>(found - kCocoFields.begin());
  }
  return true;
}

bool CocoHandler::scalar(CocoValue found) {
  if (depth_ == 0) not_coco("a single value");
  if (depth_ == kInRoot) expect_no_list();
  if (depth_ == kInList) not_an_object();
  if (depth_ == kInRecord && in_record_ && field_) {
    found.line = line();
    value() = std::move(found);
  } else if (depth_ == kInNumbers && in_numbers_) {
    if (found.kind != CocoValue::Kind::whole && found.kind != CocoValue::Kind::number)
      value().kind = CocoValue::Kind::other;
    else if (value().numbers.size() < kMostCocoNumbers)
      value().numbers.push_back(found.number);
  }
  return true;
}

/// A list or an object begins where a scalar, or a list of numbers, is wanted.
void CocoHandler::nested() {
  const bool as_value = depth_ == kInRecord && in_record_ && field_;
  if (!as_value && !(depth_ == kInNumbers && in_numbers_)) return;
  value().kind = CocoValue::Kind::other;
  value().line = line();
}

bool CocoHandler::end() {
  --depth_;
  if (depth_ == kInRecord) in_numbers_ = false;
  if (depth_ == kInList && in_record_) {
    in_record_ = false;
    sink_(record_);
  }
  if (depth_ == kInRoot) list_.reset();
  return true;
}

void CocoHandler::begin_record() {
  record_ = {.list = *list_, .index = record_.index + 1, .line = line()};
  in_record_ = true;
  field_.reset();
}

void CocoHandler::not_an_object() {
  if (!list_) return;
  begin_record();
  in_record_ = false;
  record_.object = false;
  sink_(record_);
}

void CocoHandler::expect_no_list() const {
  if (wanted_)
    throw ConfigError(path_ + ":" + std::to_string(line()) + ": \"" +
                      kCocoLists[static_cast<std::size_t>(*wanted_)] +
                      "\" is not a list, as it is in COCO's JSON");
}

void CocoHandler::not_coco(const std::string& found) const {
  throw ConfigError(path_ + ":" + std::to_string(line()) + ": " + found +
                    ", not a data set in COCO's JSON, which is an object with the lists "
                    "\"images\", \"annotations\" and \"categories\"");
}

bool CocoHandler::parse_error(std::size_t, const std::string&,
                              const nlohmann::json::exception& error) {
  // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ..."
  std::string reason = error.what();
  reason.erase(0, reason.find("] ") + 2);
  if (reason.starts_with("parse error at")) reason.erase(0, reason.find(": ") + 2);
  reason = base::valid_utf8(std::string_view(reason).substr(0, kMostJsonReason));
  throw CorruptFile(path_, static_cast<std::uint64_t>(taken_ - begin_),
                    "JSON in line " + std::to_string(line()) + " (" + reason + ")");
}

}  // namespace

std::string describe(const CocoValue& value) {
  switch (value.kind) {
    case CocoValue::Kind::absent:
      return "missing";
    case CocoValue::Kind::whole:
      return std::to_string(value.whole);
    case CocoValue::Kind::number:
      return number_text(value.number);
    case CocoValue::Kind::text:
      return in_quotes(value.text);
    case CocoValue::Kind::boolean:
      return value.whole != 0 ? "true" : "false";
    case CocoValue::Kind::numbers:
      return "a list of " +
             (value.numbers.size() < kMostCocoNumbers
                  ? std::to_string(value.numbers.size())
                  : "more than " + std::to_string(kMostCocoNumbers - 1)) +
             " numbers";
    case CocoValue::Kind::other:
      return "a list or an object";
  }
  return "";
}

void read_coco_json(const std::string& path, const std::function<void(const CocoRecord&)>& sink) {
  const base::MappedFile file(path);
  CocoHandler(path, file.bytes(), sink).parse();
}

}  // namespace lockstep::vision
