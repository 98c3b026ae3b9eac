#pragma once

// Which optimizer and which rule hold for which parameter.

#include <lockstep/method.h>

#include <optional>
#include <span>
#include <string_view>

namespace lockstep::optim {

/// Whether `name` matches `pattern`, in which * stands for any text, also none.
bool matches(std::string_view pattern, std::string_view name);

/// By name, in the order of `names`: whether it matches. Throws ConfigError, with `what` in its
/// message, when none does.
std::vector<char> matching(const std::string& what, std::string_view pattern,
                           std::span<const std::string> names);

/// What holds for one parameter.
struct Terms {
  std::size_t optimizer = 0;  ///< 0: Method::optimizer; i: that of group i - 1
  double lr_factor = 1;
  std::optional<double> weight_decay = std::nullopt;  ///< instead of the optimizer's
  friend bool operator==(const Terms&, const Terms&) = default;
};

/// The first group and the first rule that match `name`.
Terms terms_for(std::string_view name, const Method& method);

/// The optimizer of Terms::optimizer.
const Optimizer& optimizer_of(const Method& method, std::size_t number);
Optimizer& optimizer_of(Method& method, std::size_t number);

/// The number of the group with this very pattern. Throws ConfigError that lists the groups.
std::size_t group_number(const Method& method, const std::string& pattern);

/// The most slots that an optimizer of the method has.
std::size_t most_slots(const Method& method);

double weight_decay(const Optimizer& optimizer);

/// Throws ConfigError for a value out of range; `where` is "optimizer", or names a group.
void validate(const std::string& where, const Optimizer& optimizer);

/// Throws ConfigError for a value out of range, for a group without a parameter among `names`, and
/// for a rule that matches none of them.
void validate(const Method& method, std::span<const std::string> names);

/// Throws ConfigError unless parameters that `made` had its slots made for can go on with `other`:
/// the same kind, and no slot that is not there.
void require_same_slots(const std::string& where, const Optimizer& made, const Optimizer& other);

}  // namespace lockstep::optim
