#include "optim/slots.h"

#include <algorithm>
#include <string_view>

namespace lockstep::optim {
namespace {

std::vector<SlotSpec> of(const Sgd& sgd) {
  if (sgd.momentum == 0) return {};
  return {{"momentum"}};
}

template <class AnyAdam>
requires requires(AnyAdam adam) { adam.amsgrad; }
std::vector<SlotSpec> of(const AnyAdam& adam) {
  std::vector<SlotSpec> specs = {{"exp_avg"}, {"exp_avg_sq"}};
  if (adam.amsgrad) specs.push_back({"max_exp_avg_sq"});
  return specs;
}

std::vector<SlotSpec> of(const RmsProp& rms) {
  std::vector<SlotSpec> specs = {{"mean_square", rms.initial_mean_square}};
  if (rms.centered) specs.push_back({"mean_gradient"});
  if (rms.momentum > 0) specs.push_back({"momentum"});
  return specs;
}

std::vector<SlotSpec> of(const Adagrad& adagrad) { return {{"sum", adagrad.initial_accumulator}}; }

}  // namespace

std::vector<SlotSpec> slots_of(const Optimizer& optimizer) {
  return std::visit([](const auto& kind) { return of(kind); }, optimizer);
}

std::string names_of(const std::vector<SlotSpec>& slots) {
  std::string names;
  for (const SlotSpec& slot : slots) names += (names.empty() ? "" : ", ") + std::string(slot.name);
  return names.empty() ? "none" : names;
}

bool suffice(const std::vector<SlotSpec>& own, const std::vector<SlotSpec>& other) {
  const auto same = [](const SlotSpec& a, const SlotSpec& b) {
    return std::string_view(a.name) == b.name;
  };
  return other.size() <= own.size() && std::equal(other.begin(), other.end(), own.begin(), same);
}

}  // namespace lockstep::optim
