// The NCCL transport between GPUs 0 and 1.

#include "collective/nccl.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "machine.h"

namespace nccl_test {

using namespace lockstep;
using collective::Move;
using collective::Sum;

constexpr std::int64_t kLength = 1000;

/// Two towers, a stream for each, and a run of numbers on each GPU: tower t holds t + 1, t + 2, ...
struct TwoTowers {
  TwoTowers() {
    for (const int gpu : {0, 1}) {
      streams.push_back(c10::cuda::getStreamFromPool(false, static_cast<c10::DeviceIndex>(gpu)));
      const c10::cuda::CUDAStreamGuard guard(c10::cuda::CUDAStream(streams.back()));
      const auto options = torch::dtype(torch::kFloat).device(streams.back().device());
      numbers.push_back(torch::arange(2 * kLength, options) + (gpu + 1));
      targets.push_back(torch::zeros({2 * kLength}, options));
    }
  }

  torch::Tensor part(std::size_t tower, std::int64_t begin, std::int64_t end) const {
    return numbers[tower].slice(0, begin, end);
  }

  /// What is on the CPU after all that is on the towers' streams.
  torch::Tensor target(std::size_t tower) const {
    for (const c10::Stream& stream : streams) c10::cuda::CUDAStream(stream).synchronize();
    return targets[tower].cpu();
  }

  /// Sums piece by piece, cut at `cut`: the first to tower 0, the second to tower 1.
  void expect_sums(std::int64_t cut) {
    const std::vector<Sum> sums = {
        {0, {part(0, 0, cut), part(1, 0, cut)}, targets[0].slice(0, 0, cut)},
        {1,
         {part(0, cut, 2 * kLength), part(1, cut, 2 * kLength)},
         targets[1].slice(0, cut, 2 * kLength)}};
    ASSERT_TRUE(nccl->sum(sums, streams));
    const auto expected = torch::arange(2 * kLength, torch::kFloat) * 2 + 3;
    EXPECT_TRUE(target(0).slice(0, 0, cut).equal(expected.slice(0, 0, cut)));
    EXPECT_TRUE(target(1).slice(0, cut).equal(expected.slice(0, cut)));
    nccl->check();
  }

  void expect_exchange() {
    const std::vector<Move> moves = {{0, 1, numbers[0], targets[1]},
                                     {1, 0, numbers[1], targets[0]}};
    nccl->move(moves, streams);
    EXPECT_TRUE(target(0).equal(numbers[1].cpu()));
    EXPECT_TRUE(target(1).equal(numbers[0].cpu()));
    nccl->check();
  }

  std::unique_ptr<collective::Transport> nccl = collective::make_nccl({0, 1});
  std::vector<c10::Stream> streams;
  std::vector<torch::Tensor> numbers, targets;
};

TEST(Nccl, MovesBothWaysInOneCall) {
  NEEDS_GPUS(2);
  TwoTowers().expect_exchange();
}

TEST(Nccl, MovesWithinATowerAndNothingAtAll) {
  NEEDS_GPUS(2);
  TwoTowers towers;
  const std::vector<Move> moves = {{0, 0, towers.numbers[0], towers.targets[0]},
                                   {0, 1, towers.part(0, 0, 0), towers.targets[1].slice(0, 0, 0)}};
  towers.nccl->move(moves, towers.streams);
  EXPECT_TRUE(towers.target(0).equal(towers.numbers[0].cpu()));
}

TEST(Nccl, SumsPiecesOfEqualLength) {
  NEEDS_GPUS(2);
  TwoTowers().expect_sums(kLength);
}

TEST(Nccl, SumsPiecesOfUnequalLengthAndEmptyOnes) {
  NEEDS_GPUS(2);
  for (const std::int64_t cut : {std::int64_t{0}, std::int64_t{1}, kLength + 1, 2 * kLength})
    TwoTowers().expect_sums(cut);
}

TEST(Nccl, LeavesDtypesThatItCannotSum) {
  NEEDS_GPUS(2);
  TwoTowers towers;
  const auto whole = [&](std::size_t tower) { return towers.numbers[tower].to(torch::kBool); };
  const std::vector<Sum> sums = {{0, {whole(0), whole(1)}, whole(0)}};
  EXPECT_FALSE(towers.nccl->sum(sums, towers.streams));
}

TEST(Nccl, WorksAgainAfterAnAbort) {
  NEEDS_GPUS(2);
  TwoTowers towers;
  towers.nccl->abort();
  towers.expect_exchange();
}

}  // namespace nccl_test
