// Where parameters sit, and how arenas are cut into slices.

#include "arena/arena.h"

#include <gtest/gtest.h>

#include "models.h"

namespace arena_test {

using namespace lockstep::arena;
namespace nn = torch::nn;

std::vector<std::string> names(const std::vector<Entry>& entries) {
  std::vector<std::string> result;
  for (const Entry& entry : entries) result.push_back(entry.name);
  return result;
}

Entry entry(const std::string& name, torch::IntArrayRef sizes,
            torch::Dtype dtype = torch::kFloat32) {
  return {name, torch::rand(sizes).to(dtype)};
}

Layout layout_of_size(std::int64_t elements) {
  Layout layout;
  layout.size = elements;
  return layout;
}

TEST(Tensors, SortsTrainableFrozenAndBuffers) {
  nn::Linear head(4, 2);
  head->bias.requires_grad_(false);
  nn::Sequential net(nn::Conv2d(3, 4, 1), nn::BatchNorm2d(4), head);
  const Tensors tensors = tensors_of(*net);
  EXPECT_EQ(names(tensors.trainable),
            (std::vector<std::string>{"0.weight", "0.bias", "1.weight", "1.bias", "2.weight"}));
  EXPECT_EQ(names(tensors.frozen), std::vector<std::string>{"2.bias"});
  EXPECT_EQ(names(tensors.buffers),
            (std::vector<std::string>{"1.running_mean", "1.running_var", "1.num_batches_tracked"}));
}

TEST(Tensors, ATiedParameterAppearsOnce) {
  models::Tied net;
  const Tensors tensors = tensors_of(net);
  std::size_t weights = 0;
  for (const Entry& found : tensors.trainable)
    weights += found.tensor.is_same(net.embedding->weight) ? 1 : 0;
  EXPECT_EQ(weights, 1U);
  EXPECT_EQ(tensors.trainable.size(), 3U);  // embedding, mix.weight, mix.bias
}

TEST(Tensors, UndefinedParametersAndBuffersAreLeftOut) {
  nn::Sequential net(nn::Linear(nn::LinearOptions(3, 2).bias(false)),
                     nn::BatchNorm1d(nn::BatchNorm1dOptions(2).track_running_stats(false)));
  const Tensors tensors = tensors_of(*net);
  EXPECT_EQ(names(tensors.trainable), (std::vector<std::string>{"0.weight", "1.weight", "1.bias"}));
  EXPECT_TRUE(tensors.buffers.empty());
}

TEST(Layout, EverySeatStartsAtAMultipleOf128Bytes) {
  for (const auto dtype : {torch::kFloat32, torch::kFloat64, torch::kBFloat16, torch::kInt64}) {
    const auto all = layouts({entry("a", {1}, dtype), entry("b", {3, 5}, dtype),
                              entry("c", {64}, dtype), entry("d", {65}, dtype)});
    ASSERT_EQ(all.size(), 1U);
    const torch::Tensor flat = allocate(all[0], torch::kCPU);
    const auto width = static_cast<std::int64_t>(c10::elementSize(dtype));
    std::int64_t end = 0;
    for (const Seat& seat : all[0].seats) {
      EXPECT_EQ(seat.offset * width % 128, 0) << seat.name;
      EXPECT_GE(seat.offset, end) << seat.name;
      EXPECT_LT((seat.offset - end) * width, 128) << seat.name;  // no more gap than needed
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view(flat, seat).data_ptr()) % 64, 0U);
      end = seat.offset + seat.numel;
    }
    EXPECT_GE(all[0].size, end);
    EXPECT_EQ(all[0].size * width % 128, 0);
  }
}

TEST(Layout, ThereIsOneADtypeInOrderOfAppearance) {
  const auto all =
      layouts({entry("a", {3}, torch::kFloat64), entry("b", {4}), entry("c", {5}, torch::kFloat64),
               entry("d", {6}, torch::kBFloat16), entry("e", {7})});
  ASSERT_EQ(all.size(), 3U);
  const auto seats = [](const Layout& layout) {
    std::string result;
    for (const Seat& seat : layout.seats) result += seat.name + std::to_string(seat.entry) + " ";
    return result;
  };
  EXPECT_EQ(all[0].dtype, torch::kFloat64);
  EXPECT_EQ(seats(all[0]), "a0 c2 ");
  EXPECT_EQ(all[1].dtype, torch::kFloat32);
  EXPECT_EQ(seats(all[1]), "b1 e4 ");
  EXPECT_EQ(all[2].dtype, torch::kBFloat16);
  EXPECT_EQ(seats(all[2]), "d3 ");
}

TEST(Layout, NoEntriesNoLayouts) { EXPECT_TRUE(layouts({}).empty()); }

TEST(Layout, AnArenaStartsZeroedGapsIncluded) {
  const auto all = layouts({entry("a", {5}), entry("b", {7})});
  const torch::Tensor flat = allocate(all[0], torch::kCPU);
  EXPECT_EQ(flat.numel(), 64);
  EXPECT_EQ(flat.count_nonzero().item<std::int64_t>(), 0);
}

TEST(Layout, ChannelsLastStridesAreKept) {
  Entry weight = entry("weight", {4, 3, 2, 2});
  weight.tensor = weight.tensor.contiguous(torch::MemoryFormat::ChannelsLast);
  const torch::Tensor before = weight.tensor.clone();
  const auto all = layouts({weight});
  const torch::Tensor flat = allocate(all[0], torch::kCPU);
  view(flat, all[0].seats[0]).copy_(weight.tensor);
  seat(weight.tensor, flat, all[0].seats[0]);
  EXPECT_EQ(weight.tensor.strides(), before.strides());
  EXPECT_TRUE(weight.tensor.is_contiguous(torch::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(torch::equal(weight.tensor, before));
  EXPECT_EQ(flat[1].item<float>(), before[0][1][0][0].item<float>());  // channels lie side by side
}

TEST(Layout, TensorsThatAreNotDenseGetRowMajorStrides) {
  const auto all = layouts({{"expanded", torch::rand({3, 1}).expand({3, 4})},
                            {"strided", torch::rand({6, 4}).slice(0, 0, 6, 2)}});
  for (const Seat& seat : all[0].seats) EXPECT_EQ(seat.strides, (std::vector<std::int64_t>{4, 1}));
}

TEST(Seat, ASeatedTensorIsAViewOfTheArena) {
  std::vector<Entry> entries = {entry("a", {5}), entry("b", {2, 3})};
  entries[1].tensor.requires_grad_();
  const auto all = layouts(entries);
  const torch::Tensor flat = allocate(all[0], torch::kCPU);
  for (const Seat& where : all[0].seats) {
    torch::Tensor& tensor = entries[where.entry].tensor;
    EXPECT_FALSE(is_seated(tensor, flat, where)) << where.name;
    seat(tensor, flat, where);
    EXPECT_TRUE(is_seated(tensor, flat, where)) << where.name;
  }
  flat[32] = 42.F;
  EXPECT_EQ(entries[1].tensor[0][0].item<float>(), 42.F);
  EXPECT_TRUE(entries[1].tensor.requires_grad());
  EXPECT_TRUE(entries[1].tensor.is_leaf());
  EXPECT_FALSE(is_seated(entries[0].tensor, flat, all[0].seats[1]));
}

TEST(Seat, ATensorWithoutElementsIsSeatedToo) {
  std::vector<Entry> entries = {entry("a", {5}), entry("empty", {0, 3})};
  const auto all = layouts(entries);
  const torch::Tensor flat = allocate(all[0], torch::kCPU);
  seat(entries[1].tensor, flat, all[0].seats[1]);
  EXPECT_TRUE(is_seated(entries[1].tensor, flat, all[0].seats[1]));
}

TEST(Seat, ATensorGivenNewDataIsNoLongerSeated) {
  Entry weight = entry("a", {5});
  const auto all = layouts({weight});
  const torch::Tensor flat = allocate(all[0], torch::kCPU);
  seat(weight.tensor, flat, all[0].seats[0]);
  weight.tensor.set_data(torch::rand({5}));
  EXPECT_FALSE(is_seated(weight.tensor, flat, all[0].seats[0]));
}

TEST(Seat, OneOfAnotherSizeOrDtypeIsRefused) {
  const auto all = layouts({entry("a", {5})});
  const torch::Tensor flat = allocate(all[0], torch::kCPU);
  torch::Tensor longer = torch::rand({6}), wider = torch::rand({5}, torch::kFloat64);
  EXPECT_THROW(seat(longer, flat, all[0].seats[0]), std::logic_error);
  EXPECT_THROW(seat(wider, flat, all[0].seats[0]), std::logic_error);
}

TEST(Seat, AViewCountsFromTheOriginOfItsPart) {
  const auto all = layouts({entry("a", {32}), entry("b", {2, 3})});
  const torch::Tensor flat = torch::arange(all[0].size, torch::kFloat32);
  const Seat& b = all[0].seats[1];
  EXPECT_TRUE(torch::equal(view(flat, b), torch::arange(32, 38).to(torch::kFloat32).view({2, 3})));
  EXPECT_TRUE(torch::equal(view(flat.narrow(0, 8, 40), b, 0).flatten(),  // narrow: starts at 8
                           torch::arange(40, 46).to(torch::kFloat32)));
  EXPECT_TRUE(torch::equal(view(flat.narrow(0, 8, 40), b, 8), view(flat, b)));
  EXPECT_TRUE(torch::equal(view(flat.narrow(0, 8, 40).clone(), b, 8), view(flat, b)));
}

TEST(Layout, SeatAfterIsTheFirstThatReachesBeyondTheOffset) {
  const auto all =
      layouts({entry("a", {5}), entry("empty", {0}), entry("b", {32}), entry("c", {1})});
  const Layout& layout = all[0];  // a: 0 to 5, b: 32 to 64, c: 64 to 65, size 96
  const auto name_after = [&](std::int64_t offset) {
    const auto found = layout.seat_after(offset);
    return found == layout.seats.end() ? "none" : found->name;
  };
  EXPECT_EQ(name_after(0), "a");
  EXPECT_EQ(name_after(4), "a");
  EXPECT_EQ(name_after(5), "empty");  // at 32, in which nothing sits
  EXPECT_EQ(name_after(31), "empty");
  EXPECT_EQ(name_after(32), "b");
  EXPECT_EQ(name_after(63), "b");
  EXPECT_EQ(name_after(64), "c");
  EXPECT_EQ(name_after(65), "none");
}

TEST(Slice, SlicesCoverTheArenaWithoutGapOrOverlap) {
  for (const std::int64_t size :
       {std::int64_t{0}, std::int64_t{1}, kBlock - 1, kBlock, kBlock + 1, 10 * kBlock + 7})
    for (const int towers : {1, 2, 3, 5}) {
      const Layout layout = layout_of_size(size);
      std::int64_t end = 0;
      for (int tower = 0; tower < towers; ++tower) {
        const Slice slice = slice_of(Bucket{0, {0, layout.size}}, tower, towers);
        EXPECT_EQ(slice.begin, end) << size << " elements, tower " << tower << " of " << towers;
        EXPECT_GE(slice.size(), 0);
        EXPECT_TRUE(slice.size() == 0 || slice.begin % kBlock == 0) << slice.begin;
        end = slice.end;
      }
      EXPECT_EQ(end, size) << towers << " towers";
    }
}

TEST(Slice, TowersGetEquallyManyBlocksButForOne) {
  const Layout layout = layout_of_size(10 * kBlock + 7);
  EXPECT_EQ(layout.blocks(), 11);
  for (const int towers : {1, 2, 3, 5})
    for (int tower = 0; tower < towers; ++tower) {
      const Slice slice = slice_of(Bucket{0, {0, layout.size}}, tower, towers);
      const std::int64_t blocks = (slice.size() + kBlock - 1) / kBlock;
      EXPECT_GE(blocks, 11 / towers);
      EXPECT_LE(blocks, 11 / towers + 1);
    }
}

TEST(Seat, HaveAStorageOfTheirOwnThatKeepsTheArena) {
  nn::Linear net(100, 100);
  Tensors tensors = tensors_of(*net);
  const Layout layout = layouts(tensors.trainable)[0];
  torch::Tensor flat = allocate(layout, torch::kCPU);
  for (const Seat& where : layout.seats) seat(tensors.trainable[where.entry].tensor, flat, where);
  EXPECT_EQ(net->bias.storage().nbytes(), net->bias.nbytes());
  EXPECT_EQ(net->bias.storage_offset(), 0);
  view(flat, layout.seats[1]).fill_(3);
  EXPECT_TRUE(torch::equal(net->bias, torch::full({100}, 3.0)));
  flat = torch::Tensor();
  EXPECT_TRUE(torch::equal(net->bias, torch::full({100}, 3.0)));
}

TEST(Seat, ATensorThatGrowsLeavesItsSeatAndWritesNowhereElse) {
  std::vector<Entry> entries = {entry("a", {5}), entry("b", {5})};
  const Layout layout = layouts(entries)[0];
  const torch::Tensor flat = allocate(layout, torch::kCPU);
  for (const Seat& where : layout.seats) seat(entries[where.entry].tensor, flat, where);
  entries[0].tensor.resize_({1000}).fill_(7);
  EXPECT_FALSE(is_seated(entries[0].tensor, flat, layout.seats[0]));
  EXPECT_EQ(flat.sum().item<double>(), 0);
}

}  // namespace arena_test
