#include "optim/rules.h"

#include <lockstep/error.h>

#include <algorithm>
#include <cmath>

namespace lockstep::optim {
namespace {

double weight_decay(const Optimizer& optimizer) {
  return std::visit([](const auto& kind) { return kind.weight_decay; }, optimizer);
}

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

void validate_kind(const Sgd& kind) {
  below_one("optimizer.momentum", kind.momentum);
  require(!kind.nesterov || kind.momentum > 0, "optimizer.momentum", kind.momentum,
          "above 0 with nesterov");
}

template <class AdamKind>
requires requires(AdamKind kind) { kind.beta1; }
void validate_kind(const AdamKind& kind) {
  below_one("optimizer.beta1", kind.beta1);
  below_one("optimizer.beta2", kind.beta2);
  at_least_zero("optimizer.epsilon", kind.epsilon);
}

void validate_kind(const RmsProp& kind) {
  below_one("optimizer.decay", kind.decay);
  below_one("optimizer.momentum", kind.momentum);
  at_least_zero("optimizer.epsilon", kind.epsilon);
  at_least_zero("optimizer.initial_mean_square", kind.initial_mean_square);
}

void validate_kind(const Adagrad& kind) {
  at_least_zero("optimizer.lr_decay", kind.lr_decay);
  at_least_zero("optimizer.epsilon", kind.epsilon);
  at_least_zero("optimizer.initial_accumulator", kind.initial_accumulator);
}

}  // namespace

bool matches(std::string_view pattern, std::string_view name) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (name.substr(0, star) != pattern.substr(0, star)) return false;
  for (std::size_t rest = star; rest <= name.size(); ++rest)
    if (matches(pattern.substr(star + 1), name.substr(rest))) return true;
  return false;
}

Terms terms_for(std::string_view name, const Optimizer& optimizer,
                std::span<const ParameterRule> rules) {
  for (const ParameterRule& rule : rules)
    if (matches(rule.pattern, name))
      return {rule.lr_factor, rule.weight_decay.value_or(weight_decay(optimizer))};
  return {1, weight_decay(optimizer)};
}

void validate(const Optimizer& optimizer, std::span<const ParameterRule> rules, const Clip& clip,
              const std::optional<MovingAverage>& average, std::span<const std::string> names) {
  at_least_zero("optimizer.lr", learning_rate(optimizer));
  at_least_zero("optimizer.weight_decay", weight_decay(optimizer));
  std::visit([](const auto& kind) { validate_kind(kind); }, optimizer);
  at_least_zero("clip.global_norm", clip.global_norm);
  at_least_zero("clip.per_shard_norm", clip.per_shard_norm);
  if (clip.global_norm > 0 && clip.per_shard_norm > 0)
    throw ConfigError("clip.global_norm and clip.per_shard_norm are both set; choose one.");
  if (average)
    require(average->decay >= 0 && average->decay <= 1, "moving_average.decay", average->decay,
            "from 0 to 1");
  for (const ParameterRule& rule : rules) {
    at_least_zero("rule '" + rule.pattern + "': lr_factor", rule.lr_factor);
    at_least_zero("rule '" + rule.pattern + "': weight_decay", rule.weight_decay.value_or(0));
    const auto hit = [&](const std::string& name) { return matches(rule.pattern, name); };
    if (std::none_of(names.begin(), names.end(), hit))
      throw ConfigError("rule '" + rule.pattern +
                        "' matches no trainable parameter; the first is '" +
                        (names.empty() ? "" : names.front()) + "'.");
  }
}

}  // namespace lockstep::optim
