#include "optim/rules.h"

#include <lockstep/error.h>

#include <algorithm>
#include <cmath>

#include "optim/slots.h"

namespace lockstep::optim {
namespace {

void require(bool condition, const std::string& field, double value, const std::string& range) {
  if (condition) return;
  throw ConfigError(field + " is " + std::to_string(value) + "; it must be " + range + ".");
}

void at_least_zero(const std::string& field, double value) {
  require(std::isfinite(value) && value >= 0, field, value, "0 or more");
}

void below_one(const std::string& field, double value) {
  require(value >= 0 && value < 1, field, value, "at least 0 and below 1");
}

void validate_kind(const std::string& where, const Sgd& kind) {
  below_one(where + ".momentum", kind.momentum);
  require(std::isfinite(kind.dampening), where + ".dampening", kind.dampening, "a number");
  require(!kind.nesterov || kind.momentum > 0, where + ".momentum", kind.momentum,
          "above 0 with nesterov");
  require(!kind.nesterov || kind.dampening == 0, where + ".dampening", kind.dampening,
          "0 with nesterov");
}

template <class AdamKind>
requires requires(AdamKind kind) { kind.beta1; }
void validate_kind(const std::string& where, const AdamKind& kind) {
  below_one(where + ".beta1", kind.beta1);
  below_one(where + ".beta2", kind.beta2);
  at_least_zero(where + ".epsilon", kind.epsilon);
}

void validate_kind(const std::string& where, const RmsProp& kind) {
  below_one(where + ".decay", kind.decay);
  below_one(where + ".momentum", kind.momentum);
  at_least_zero(where + ".epsilon", kind.epsilon);
  at_least_zero(where + ".initial_mean_square", kind.initial_mean_square);
}

void validate_kind(const std::string& where, const Adagrad& kind) {
  at_least_zero(where + ".lr_decay", kind.lr_decay);
  at_least_zero(where + ".epsilon", kind.epsilon);
  at_least_zero(where + ".initial_accumulator", kind.initial_accumulator);
}

std::string word(const Optimizer& optimizer) {
  constexpr const char* kNames[] = {"Sgd", "Adam", "AdamW", "RmsProp", "Adagrad"};
  static_assert(std::size(kNames) == std::variant_size_v<Optimizer>);
  return kNames[optimizer.index()];
}

/// "generator.*, discriminator.*", or "none".
std::string patterns(const std::vector<Group>& groups) {
  std::string all;
  for (const Group& group : groups) all += (all.empty() ? "" : ", ") + group.pattern;
  return all.empty() ? "none" : all;
}

/// How many parameters each optimizer has, by Terms::optimizer.
std::vector<int> sizes_of_groups(const Method& method, std::span<const std::string> names) {
  std::vector<int> sizes(method.groups.size() + 1, 0);
  for (const std::string& name : names) ++sizes[terms_for(name, method).optimizer];
  return sizes;
}

}  // namespace

std::size_t most_slots(const Method& method) {
  std::size_t most = 0;
  for (std::size_t i = 0; i <= method.groups.size(); ++i)
    most = std::max(most, slots_of(optimizer_of(method, i)).size());
  return most;
}

double weight_decay(const Optimizer& optimizer) {
  return std::visit([](const auto& kind) { return kind.weight_decay; }, optimizer);
}

bool matches(std::string_view pattern, std::string_view name) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (name.substr(0, star) != pattern.substr(0, star)) return false;
  for (std::size_t rest = star; rest <= name.size(); ++rest)
    if (matches(pattern.substr(star + 1), name.substr(rest))) return true;
  return false;
}

std::vector<char> matching(const std::string& what, std::string_view pattern,
                           std::span<const std::string> names) {
  std::vector<char> found;
  for (const std::string& name : names) found.push_back(matches(pattern, name));
  if (std::ranges::find(found, 1) == found.end())
    throw ConfigError(what + " '" + std::string(pattern) +
                      "' matches no trainable parameter; the first is '" +
                      (names.empty() ? "" : names.front()) + "'.");
  return found;
}

Terms terms_for(std::string_view name, const Method& method) {
  const auto hit = [&](const auto& each) { return matches(each.pattern, name); };
  const auto group = std::ranges::find_if(method.groups, hit);
  const auto rule = std::ranges::find_if(method.rules, hit);
  Terms terms;
  if (group != method.groups.end())
    terms.optimizer = static_cast<std::size_t>(group - method.groups.begin()) + 1;
  if (rule != method.rules.end()) {
    terms.lr_factor = rule->lr_factor;
    terms.weight_decay = rule->weight_decay;
  }
  return terms;
}

const Optimizer& optimizer_of(const Method& method, std::size_t number) {
  return number == 0 ? method.optimizer : method.groups[number - 1].optimizer;
}

Optimizer& optimizer_of(Method& method, std::size_t number) {
  return number == 0 ? method.optimizer : method.groups[number - 1].optimizer;
}

std::size_t group_number(const Method& method, const std::string& pattern) {
  const auto found = std::ranges::find(method.groups, pattern, &Group::pattern);
  if (found == method.groups.end())
    throw ConfigError("there is no group '" + pattern + "'; method.groups has " +
                      patterns(method.groups) + ".");
  return static_cast<std::size_t>(found - method.groups.begin()) + 1;
}

void validate(const std::string& where, const Optimizer& optimizer) {
  at_least_zero(where + ".lr", learning_rate(optimizer));
  at_least_zero(where + ".weight_decay", weight_decay(optimizer));
  std::visit([&](const auto& kind) { validate_kind(where, kind); }, optimizer);
}

void validate(const Method& method, std::span<const std::string> names) {
  validate("optimizer", method.optimizer);
  const std::vector<int> sizes = sizes_of_groups(method, names);
  for (std::size_t i = 0; i < method.groups.size(); ++i) {
    const auto& [pattern, optimizer] = method.groups[i];
    validate("group '" + pattern + "': optimizer", optimizer);
    matching("group", pattern, names);
    if (sizes[i + 1] == 0)
      throw ConfigError("group '" + pattern +
                        "' has no parameter: the groups before it match all of its own; put it "
                        "before them, or leave it out.");
  }
  const Clip& clip = method.clip;
  at_least_zero("clip.global_norm", clip.global_norm);
  at_least_zero("clip.per_shard_norm", clip.per_shard_norm);
  if (clip.global_norm > 0 && clip.per_shard_norm > 0)
    throw ConfigError("clip.global_norm and clip.per_shard_norm are both set; choose one.");
  if (const auto& average = method.moving_average)
    require(average->decay >= 0 && average->decay <= 1, "moving_average.decay", average->decay,
            "from 0 to 1");
  for (const ParameterRule& rule : method.rules) {
    at_least_zero("rule '" + rule.pattern + "': lr_factor", rule.lr_factor);
    at_least_zero("rule '" + rule.pattern + "': weight_decay", rule.weight_decay.value_or(0));
    matching("rule", rule.pattern, names);
  }
}

void require_same_slots(const std::string& where, const Optimizer& made, const Optimizer& other) {
  if (made.index() != other.index())
    throw ConfigError(where + " is " + word(made) + ", not " + word(other) +
                      ": a training keeps its kinds of optimizers; make the towers anew for "
                      "another.");
  const std::vector<SlotSpec> own = slots_of(made), needed = slots_of(other);
  if (!suffice(own, needed))
    throw ConfigError(where + " would need the slots " + names_of(needed) +
                      ", and it was made "
                      "with " +
                      names_of(own) +
                      ": slots are decided when the towers are made, such as by a momentum above "
                      "0; begin with one.");
}

}  // namespace lockstep::optim
