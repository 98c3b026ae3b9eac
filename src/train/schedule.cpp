#include <lockstep/error.h>
#include <lockstep/schedule.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lockstep {
namespace {

template <class... F>
struct Overload : F... {
  using F::operator()...;
};
template <class... F>
Overload(F...) -> Overload<F...>;

void require(bool condition, const char* message) {
  if (!condition) throw ConfigError(message);
}

}  // namespace

void check_schedule(const Schedule& schedule) {
  require(schedule.warm_up >= 0, "a schedule's warm-up must not be negative.");
  std::visit(Overload{
                 [](const ExponentialDecay& decay) {
                   require(decay.rate > 0, "exponential decay needs a rate above 0.");
                   require(decay.steps > 0, "exponential decay needs steps above 0.");
                 },
                 [](const Piecewise& piecewise) {
                   require(piecewise.factors.size() == piecewise.boundaries.size() + 1,
                           "a piecewise schedule needs one more factor than boundaries.");
                   require(std::ranges::is_sorted(piecewise.boundaries, std::ranges::less_equal{}),
                           "the boundaries of a piecewise schedule must ascend.");
                 },
                 [](const Cosine& cosine) {
                   require(cosine.steps > 0, "a cosine schedule needs steps above 0.");
                 },
                 [](const Plateau& plateau) {
                   require(plateau.factor > 0, "a plateau schedule needs a factor above 0.");
                   require(plateau.patience > 0, "a plateau schedule needs a patience above 0.");
                 },
                 [](const auto&) {},
             },
             schedule.shape);
}

double rate_factor(const Schedule& schedule, std::int64_t step, const ScheduleState& state) {
  const auto now = static_cast<double>(step);
  const auto warm_up = static_cast<double>(std::max<std::int64_t>(schedule.warm_up, 1));
  const double shape = std::visit(
      Overload{
          [](const Constant&) { return 1.0; },
          [&](const ExponentialDecay& decay) {
            const double periods = now / static_cast<double>(decay.steps);
            return std::pow(decay.rate, decay.staircase ? std::floor(periods) : periods);
          },
          [&](const Piecewise& piecewise) {
            const auto passed = std::ranges::upper_bound(piecewise.boundaries, step);
            return piecewise
                .factors[static_cast<std::size_t>(passed - piecewise.boundaries.begin())];
          },
          [&](const Cosine& cosine) {
            const double part = std::min(1.0, now / static_cast<double>(cosine.steps));
            return cosine.floor + (1 - cosine.floor) * (1 + std::cos(std::numbers::pi * part)) / 2;
          },
          [&](const InverseSquareRoot&) { return std::sqrt(warm_up / std::max(now + 1, warm_up)); },
          [&](const Plateau& plateau) {
            return std::pow(plateau.factor, static_cast<double>(state.decays));
          },
      },
      schedule.shape);
  return shape * std::min(1.0, (now + 1) / warm_up);
}

void note_loss(const Schedule& schedule, ScheduleState& state, double loss) {
  const auto* plateau = std::get_if<Plateau>(&schedule.shape);
  if (plateau == nullptr) return;
  const auto patience = static_cast<std::size_t>(plateau->patience);
  if (state.recent.size() >= patience && loss > std::ranges::max(state.recent)) ++state.decays;
  state.recent.push_back(loss);
  if (state.recent.size() > patience) state.recent.erase(state.recent.begin());
}

}  // namespace lockstep
