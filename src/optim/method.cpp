#include <lockstep/method.h>

#include <charconv>

namespace lockstep {
namespace {

using Fields = std::map<std::string, std::string>;

/// The shortest text that reads back as the same number.
std::string text(double value) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}

std::string text(bool value) { return value ? "true" : "false"; }

std::string text(const std::vector<ParameterRule>& rules) {
  std::string all;
  for (const ParameterRule& rule : rules) {
    all += (all.empty() ? "" : "; ") + rule.pattern + " lr_factor " + text(rule.lr_factor);
    if (rule.weight_decay) all += " weight_decay " + text(*rule.weight_decay);
  }
  return all.empty() ? "none" : all;
}

Fields of(const Sgd& own) {
  Fields fields = {{"", "sgd"},
                   {".momentum", text(own.momentum)},
                   {".nesterov", text(own.nesterov)},
                   {".weight_decay", text(own.weight_decay)}};
  if (own.dampening != 0) fields[".dampening"] = text(own.dampening);
  return fields;
}

template <class AnyAdam>
Fields of_adam(const char* name, const AnyAdam& own) {
  Fields fields = {{"", name},
                   {".beta1", text(own.beta1)},
                   {".beta2", text(own.beta2)},
                   {".epsilon", text(own.epsilon)},
                   {".weight_decay", text(own.weight_decay)}};
  if (own.amsgrad) fields[".amsgrad"] = text(own.amsgrad);
  return fields;
}

Fields of(const Adam& own) { return of_adam("adam", own); }
Fields of(const AdamW& own) { return of_adam("adamw", own); }

Fields of(const Adagrad& own) {
  return {{"", "adagrad"},
          {".lr_decay", text(own.lr_decay)},
          {".epsilon", text(own.epsilon)},
          {".initial_accumulator", text(own.initial_accumulator)},
          {".weight_decay", text(own.weight_decay)}};
}

Fields of(const RmsProp& own) {
  return {{"", "rmsprop"},
          {".decay", text(own.decay)},
          {".epsilon", text(own.epsilon)},
          {".momentum", text(own.momentum)},
          {".centered", text(own.centered)},
          {".weight_decay", text(own.weight_decay)},
          {".epsilon_inside_root", text(own.epsilon_inside_root)},
          {".rate_inside_momentum", text(own.rate_inside_momentum)},
          {".initial_mean_square", text(own.initial_mean_square)}};
}

/// The fields of an optimizer, under `name`.
void add(Fields& fields, const std::string& name, const Optimizer& optimizer) {
  fields[name + ".lr"] = text(learning_rate(optimizer));
  for (const auto& [key, value] : std::visit([](const auto& kind) { return of(kind); }, optimizer))
    fields[name + key] = value;
}

std::string word(Precision precision) {
  switch (precision) {
    case Precision::float32:
      return "float32";
    case Precision::bfloat16:
      return "bfloat16";
    case Precision::float16:
      return "float16";
  }
  return "?";
}

}  // namespace

std::map<std::string, std::string> fields_of(const Method& method) {
  Fields fields = {{"shards", std::to_string(method.shards)},
                   {"seed", std::to_string(method.seed)},
                   {"rules", text(method.rules)},
                   {"clip.global_norm", text(method.clip.global_norm)},
                   {"clip.per_shard_norm", text(method.clip.per_shard_norm)},
                   {"non_finite", method.non_finite == NonFinite::refuse ? "refuse" : "skip"},
                   {"precision", word(method.precision)},
                   {"reduction", method.reduction == Reduction::exact ? "exact" : "fast"}};
  add(fields, "optimizer", method.optimizer);
  for (const Group& group : method.groups) {
    fields["groups"] += (fields["groups"].empty() ? "" : "; ") + group.pattern;  // their order
    add(fields, "groups." + group.pattern, group.optimizer);
  }
  if (method.moving_average) {
    fields["moving_average.decay"] = text(method.moving_average->decay);
    fields["moving_average.warm_up"] = text(method.moving_average->warm_up);
  }
  if (const auto& async = method.async) {
    const bool delay = async->order == Order::delay;
    fields["async.order"] = delay ? "delay" : "free";
    if (delay) fields["async.delay"] = std::to_string(async->delay);
    if (!delay && async->staleness) fields["async.staleness"] = std::to_string(*async->staleness);
    if (async->compensation != 0) fields["async.compensation"] = text(async->compensation);
  }
  if (method.precision == Precision::float16) {
    fields["loss_scaling.initial"] = text(method.loss_scaling.initial);
    fields["loss_scaling.growth_interval"] = std::to_string(method.loss_scaling.growth_interval);
  }
  return fields;
}

std::vector<FieldChange> changes(const std::map<std::string, std::string>& before,
                                 const std::map<std::string, std::string>& now) {
  std::vector<FieldChange> found;
  const auto value_in = [](const Fields& fields, const std::string& name) {
    const auto field = fields.find(name);
    return field == fields.end() ? std::string("none") : field->second;
  };
  Fields all = before;
  all.insert(now.begin(), now.end());
  for (const auto& [name, value] : all)
    if (value_in(before, name) != value_in(now, name))
      found.push_back({name, value_in(before, name), value_in(now, name)});
  return found;
}

std::string describe(const FieldChange& change) {
  const auto cut = [](const std::string& value) {
    constexpr std::size_t kMost = 60;
    return value.size() <= kMost ? value : value.substr(0, kMost) + "...";
  };
  return change.name + ": " + cut(change.before) + " -> " + cut(change.now);
}

}  // namespace lockstep
