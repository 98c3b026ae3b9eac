#pragma once

// Parameter groups: which rule holds for which parameter.

#include <lockstep/optimizer.h>

#include <span>
#include <string_view>

namespace lockstep::optim {

/// Whether `name` matches `pattern`, in which * stands for any text, also none.
bool matches(std::string_view pattern, std::string_view name);

/// What holds for one parameter.
struct Terms {
  double lr_factor = 1;
  double weight_decay = 0;
  friend bool operator==(const Terms&, const Terms&) = default;
};

/// The first rule that matches `name`, else the optimizer's own terms.
Terms terms_for(std::string_view name, const Optimizer& optimizer,
                std::span<const ParameterRule> rules);

/// Throws ConfigError for a value out of range, and for a rule that matches none of `names`.
void validate(const Optimizer& optimizer, std::span<const ParameterRule> rules, const Clip& clip,
              const std::optional<MovingAverage>& average, std::span<const std::string> names);

}  // namespace lockstep::optim
