#pragma once

// A stream as a range of items, for `for` and for Mirrored::evaluate.

#include <lockstep/stream.h>

#include <functional>
#include <iterator>

namespace lockstep {

/// Goes through a stream once. Calls `go_on` before each item; false ends the range.
template <class Item>
class InputRange {
 public:
  explicit InputRange(Stream<Item>& stream, std::function<bool()> go_on = nullptr)
      : stream_(stream), go_on_(std::move(go_on)) {
    advance();
  }

  bool stopped() const { return stopped_; }  ///< by go_on, not by the end of the stream

  struct End {};
  class Iterator {
   public:
    explicit Iterator(InputRange& range) : range_(&range) {}
    const Item& operator*() const { return *range_->item_; }
    Iterator& operator++() {
      range_->advance();
      return *this;
    }
    bool operator!=(End) const { return range_->item_.has_value(); }

   private:
    InputRange* range_;
  };

  Iterator begin() { return Iterator(*this); }
  End end() const { return {}; }

 private:
  void advance() {
    stopped_ = stopped_ || (go_on_ && !go_on_());
    item_ = stopped_ ? std::nullopt : stream_.next();
  }

  Stream<Item>& stream_;
  std::function<bool()> go_on_;
  bool stopped_ = false;
  std::optional<Item> item_;
};

}  // namespace lockstep
