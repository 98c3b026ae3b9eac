// Decorators of streams that are no sources.

#include <gtest/gtest.h>
#include <lockstep/input.h>

#include <algorithm>

#include "numbers.h"

namespace stream_test {

using namespace lockstep;
using tests::Counting;
using tests::CountingStream;
using tests::expect_refused;
using tests::expect_restorable;
using tests::Numbers;
using tests::rest_of;

std::unique_ptr<Stream<std::int64_t>> counting(std::int64_t count = 7, std::int64_t epochs = 3) {
  return std::make_unique<CountingStream>(count, epochs);
}

/// One that fails once, at an item; and the others.
std::unique_ptr<Stream<std::int64_t>> failing(std::int64_t item) {
  auto stream = std::make_unique<CountingStream>(7, 2);
  stream->fails_at = item;
  return stream;
}

/// Reads on over failures, counting them, and expects not to move when there is one.
template <class T>
std::pair<std::vector<T>, int> rest_over_failures(Stream<T>& stream) {
  std::vector<T> items;
  int failures = 0;
  while (true) {
    const Position before = stream.position();
    try {
      std::optional<T> item = stream.next();
      if (!item) return {items, failures};
      items.push_back(std::move(*item));
    } catch (const std::runtime_error&) {
      ++failures;
      EXPECT_EQ(stream.position(), before);
    }
  }
}

TEST(MappedStream, AppliesAFunctionToEachItem) {
  const auto mapped =
      input::map(counting(2, 2), [](std::int64_t item) { return static_cast<double>(item) / 2; });
  EXPECT_EQ(rest_of(mapped), (std::vector<double>{0, 0.5, 500, 500.5}));
}

TEST(BatchedStream, NeverMixesEpochs) {
  const std::vector<Numbers> kept = {{0, 1, 2}, {3, 4}, {1000, 1001, 1002}, {1003, 1004}};
  EXPECT_EQ(rest_of(input::batch(counting(5, 2), 3)), kept);
  const std::vector<Numbers> dropped = {{0, 1, 2}, {1000, 1001, 1002}};
  EXPECT_EQ(rest_of(input::batch(counting(5, 2), 3, input::Last::drop)), dropped);
  EXPECT_EQ(rest_of(input::batch(counting(2, 2), 3, input::Last::drop)), std::vector<Numbers>{});
  EXPECT_FALSE(input::batch(counting(2, input::kEndless), 3, input::Last::drop)->next())
      << "not for ever";
  EXPECT_THROW(input::batch(counting(), 0), ConfigError);
  EXPECT_THROW(input::batch(counting(), 3, input::Last::merge), ConfigError);
}

TEST(ShuffledStream, PermutesEachWindowAndNeverMixesEpochs) {
  const Numbers items = rest_of(input::shuffle(counting(10, 4), 4, 1));
  ASSERT_EQ(items.size(), 40U);
  int moved = 0;
  for (std::size_t epoch = 0; epoch < 4; ++epoch)
    for (const auto& [begin, end] :
         std::vector<std::pair<std::size_t, std::size_t>>{{0, 4}, {4, 8}, {8, 10}}) {
      Numbers window(items.begin() + static_cast<std::ptrdiff_t>(10 * epoch + begin),
                     items.begin() + static_cast<std::ptrdiff_t>(10 * epoch + end));
      moved += std::is_sorted(window.begin(), window.end()) ? 0 : 1;
      std::sort(window.begin(), window.end());
      for (std::size_t i = begin; i < end; ++i)
        EXPECT_EQ(window[i - begin], static_cast<std::int64_t>(1000 * epoch + i));
    }
  EXPECT_GE(moved, 6) << "of 12 windows";
  EXPECT_NE(rest_of(input::shuffle(counting(10, 4), 4, 2)), items);
  EXPECT_EQ(rest_of(input::shuffle(counting(10, 4), 4, 1)), items);
}

TEST(ShuffledStream, ReadsAtMostOneWindowToBeRestored) {
  auto stream = std::make_unique<CountingStream>(1000, 1);
  const CountingStream& inner = *stream;
  const auto shuffled =
      input::shuffle(std::unique_ptr<Stream<std::int64_t>>(std::move(stream)), 10, 1);
  shuffled->seek({0, 500, 77, 9});
  EXPECT_EQ(inner.reads, 10);
  shuffled->seek({0, 700, 77, 0});
  EXPECT_EQ(inner.reads, 10);
}

TEST(ShuffledStream, RefusesWhatIsNoPosition) {
  const auto shuffled = input::shuffle(counting(7, 3), 4, 1);
  for (int i = 0; i < 6; ++i) shuffled->next();
  auto twin = input::shuffle(counting(7, 3), 4, 1);
  twin->seek(shuffled->position());
  // The window at 4 has three items; the windows of this stream have four.
  for (const Position& wrong : std::vector<Position>{
           {}, {0}, {0, 4, 77, 3}, {0, 0, 77, 4}, {0, 0, 77, -1}, {9, 0, 77, 0}, {0, 0, 78, 0}})
    expect_refused(*shuffled, wrong);
  EXPECT_EQ(rest_of(shuffled), rest_of(twin));
  EXPECT_THROW(input::shuffle(counting(), 0, 1), ConfigError);
}

TEST(PrefetchedStream, IsTheSameStream) {
  for (const int depth : {1, 2, 5, 50})
    EXPECT_EQ(rest_of(input::prefetch(counting(), depth)), rest_of(counting()));
}

TEST(PrefetchedStream, RefusesWhatIsNoPositionAndLosesNothing) {
  const auto ahead = input::prefetch(counting(7, 2), 3);
  ahead->next();
  for (int i = 0; i < 20; ++i) expect_refused(*ahead, {0, 99, 77});
  EXPECT_EQ(rest_of(ahead), (Numbers{1, 2, 3, 4, 5, 6, 1000, 1001, 1002, 1003, 1004, 1005, 1006}));
}

TEST(StreamDecorators, AreRestoredAtEveryPoint) {
  const auto negative = [](std::int64_t item) { return -item; };
  expect_restorable([] { return counting(); });
  expect_restorable([&] { return input::map(counting(), negative); });
  expect_restorable([] { return input::batch(counting(), 3); });
  expect_restorable([] { return input::batch(counting(), 3, input::Last::drop); });
  expect_restorable([] { return input::shuffle(counting(), 3, 1); });
  expect_restorable([] { return input::prefetch(counting(), 2); });
}

TEST(StreamDecorators, AreRestoredAtEveryPointHoweverNested) {
  const auto negative = [](std::int64_t item) { return -item; };
  const auto sum = [](const Numbers& items) {
    std::int64_t total = 0;
    for (const std::int64_t item : items) total = total * 3 + item;
    return total;
  };
  for (const std::int64_t window : {1, 2, 3, 7, 20}) {
    const auto shuffled = [=] { return input::shuffle(counting(), window, 1); };
    expect_restorable([=] { return input::map(shuffled(), negative); });
    expect_restorable([=] { return input::batch(shuffled(), 2); });
    expect_restorable([=] { return input::shuffle(shuffled(), 3, 2); });
    expect_restorable([=] { return input::prefetch(shuffled(), 3); });
    expect_restorable([=] { return input::shuffle(input::batch(shuffled(), 2), 2, 3); });
    expect_restorable([=] {
      return input::prefetch(
          input::map(input::batch(input::shuffle(input::prefetch(counting(), 2), window, 1), 2),
                     sum),
          4);
    });
    expect_restorable([=] { return input::shuffle(input::stream(Counting{5}, 3), window, 4); });
  }
}

TEST(StreamDecorators, StayWhereTheyAreWhenAnItemCannotBeMade) {
  for (const std::int64_t item : {0, 2, 3, 6, 1000, 1005}) {
    const auto expect_same = [&](const auto& decorate) {
      const auto [items, failures] = rest_over_failures(*decorate(failing(item)));
      EXPECT_EQ(failures, 1);
      EXPECT_EQ(items, rest_of(decorate(counting(7, 2)))) << "failing at " << item;
    };
    using Inner = std::unique_ptr<Stream<std::int64_t>>;
    expect_same(
        [](Inner inner) { return input::map(std::move(inner), [](auto i) { return -i; }); });
    expect_same([](Inner inner) { return input::batch(std::move(inner), 3); });
    expect_same([](Inner inner) { return input::shuffle(std::move(inner), 4, 1); });
    expect_same([](Inner inner) { return input::prefetch(std::move(inner), 3); });
    expect_same([](Inner inner) {
      return input::prefetch(input::batch(input::shuffle(std::move(inner), 4, 1), 2), 2);
    });
  }
}

}  // namespace stream_test
