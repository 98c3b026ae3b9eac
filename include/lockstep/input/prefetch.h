#pragma once

// Items prepared ahead, on threads of their own. The stream stays the same.

#include <lockstep/input/ahead.h>
#include <lockstep/input/stream.h>

#include <memory>
#include <optional>
#include <utility>

namespace lockstep::input {

template <Source S>
class PrefetchedSource : public Stream<ItemOf<S>> {
 public:
  PrefetchedSource(S source, const Prefetch& how)
      : source_(std::move(source)),
        course_(source_.size(), how.epochs),
        ahead_(how, [this](std::int64_t number) -> std::shared_ptr<void> {
          if (number >= course_.end()) return nullptr;
          return std::make_shared<Made<ItemOf<S>>>(
              made(source_, course_.epoch(number), course_.index(number), share_));
        }) {}

  std::optional<ItemOf<S>> next() override {
    const auto next = std::static_pointer_cast<Made<ItemOf<S>>>(ahead_.take());
    if (!next) return std::nullopt;
    portion_ = next->portion;
    return std::move(next->item);
  }

  Position position() const override { return course_.position(ahead_.number()); }

  void seek(const Position& position) override {
    ahead_.restart([&] { return course_.number(position); });
  }

  bool share(const Share& share) override {
    require_valid(share);
    if constexpr (!MakesRows<S>) return share.whole();
    if (share == share_) return true;
    ahead_.restart([&] {
      share_ = share;
      return ahead_.number();
    });
    return true;
  }
  Portion portion() const override { return portion_; }

 private:
  S source_;
  Course course_;
  Share share_;  // read by the workers, changed while they rest
  Portion portion_;
  Ahead ahead_;
};

/// The items of a source in order, epoch after epoch, made ahead. Position: {epoch, index} of the
/// next item that is handed out.
template <Source S>
std::unique_ptr<Stream<ItemOf<S>>> prefetch(S source, const Prefetch& how = {}) {
  return std::make_unique<PrefetchedSource<S>>(std::move(source), how);
}

template <class T>
class PrefetchedStream : public Stream<T> {
 public:
  PrefetchedStream(std::unique_ptr<Stream<T>> inner, int depth)
      : inner_(std::move(inner)),
        position_(inner_->position()),
        ahead_({.depth = depth}, [this](std::int64_t) { return read(); }) {}

  std::optional<T> next() override {
    const auto item = std::static_pointer_cast<Item>(ahead_.take());
    if (!item) return std::nullopt;
    position_ = std::move(item->after);
    portion_ = item->portion;
    return std::move(item->value);
  }

  Position position() const override { return position_; }

  void seek(const Position& position) override {
    ahead_.restart([&] {
      inner_->seek(position);
      position_ = position;
      return std::int64_t{0};
    });
  }

  bool share(const Share& share) override {
    bool taken = false;
    ahead_.restart([&] {
      taken = inner_->share(share);
      inner_->seek(position_);
      return std::int64_t{0};
    });
    return taken;
  }
  Portion portion() const override { return portion_; }

 private:
  struct Item {
    T value;
    Position after;
    Portion portion;
  };

  std::shared_ptr<void> read() {
    return or_stay(*inner_, [&]() -> std::shared_ptr<void> {
      std::optional<T> value = inner_->next();
      if (!value) return nullptr;
      return std::make_shared<Item>(Item{std::move(*value), inner_->position(), inner_->portion()});
    });
  }

  std::unique_ptr<Stream<T>> inner_;  // touched by the worker only, and while it rests
  Position position_;
  Portion portion_;
  Ahead ahead_;
};

/// A stream read ahead by up to `depth` items, on a thread of its own.
template <class T>
std::unique_ptr<Stream<T>> prefetch(std::unique_ptr<Stream<T>> inner, int depth = 4) {
  return std::make_unique<PrefetchedStream<T>>(std::move(inner), depth);
}

}  // namespace lockstep::input
