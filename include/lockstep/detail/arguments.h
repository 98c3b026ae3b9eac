#pragma once

// Each tower's model is constructed from the same arguments, or made by a function. Modules and
// tensors among the arguments are copied for each tower.

#include <lockstep/detail/requirements.h>
#include <torch/torch.h>

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <unordered_map>

namespace lockstep::detail {

/// Copies of tensors and modules for one tower, on the device that new tensors land on. What was
/// one tensor or one module is copied once, however often it is asked for.
class Copies {
 public:
  Copies();
  torch::Tensor of(const torch::Tensor& tensor);
  /// The module itself when it has no clone(). Throws ConfigError when clone() loses a tensor, or
  /// makes two of one.
  std::shared_ptr<torch::nn::Module> of(const std::shared_ptr<torch::nn::Module>& module);
  torch::nn::AnyModule of(const torch::nn::AnyModule& module);

 private:
  void note(const torch::nn::Module& original,
            const std::function<std::shared_ptr<torch::nn::Module>()>& clone);
  void note(const torch::nn::Module& original, const torch::nn::Module& copy);

  torch::Device device_;
  std::unordered_map<const void*, torch::Tensor> tensors_;  // by TensorImpl
  std::unordered_map<const torch::nn::Module*, std::shared_ptr<torch::nn::Module>> modules_;
  std::unordered_map<const torch::nn::Module*, torch::nn::AnyModule> any_modules_;
};

/// Types that `renew` knows: those with tensors or modules in them.
template <class T>
concept Renewable = requires(T& value, Copies& copies) {
  renew(value, copies);
};

// Replaces the tensors and modules in a value by their copies.

inline void renew(torch::Tensor& tensor, Copies& copies) { tensor = copies.of(tensor); }

inline void renew(torch::nn::AnyModule& module, Copies& copies) {
  if (!module.is_empty()) module = copies.of(module);
}

template <std::derived_from<torch::nn::Module> Module>
void renew(std::shared_ptr<Module>& module, Copies& copies) {
  if (module) module = std::dynamic_pointer_cast<Module>(copies.of(module));
}

template <class Held>
void renew(torch::nn::ModuleHolder<Held>& holder, Copies& copies) {
  if (holder.is_empty()) return;
  std::shared_ptr<Held> module = holder.ptr();
  renew(module, copies);
  holder = torch::nn::ModuleHolder<Held>(std::move(module));
}

template <Renewable Item>
void renew(std::vector<Item>& items, Copies& copies) {
  for (Item& item : items) renew(item, copies);
}

template <Renewable Item, std::size_t size>
void renew(std::array<Item, size>& items, Copies& copies) {
  for (Item& item : items) renew(item, copies);
}

template <Renewable Item>
void renew(std::optional<Item>& item, Copies& copies) {
  if (item) renew(*item, copies);
}

template <class Key, Renewable Item>
void renew(std::map<Key, Item>& items, Copies& copies) {
  for (auto& [key, item] : items) renew(item, copies);
}

template <class Key, Renewable Item>
void renew(torch::OrderedDict<Key, Item>& items, Copies& copies) {
  for (auto& item : items) renew(item.value(), copies);
}

template <class... Parts>
requires(Renewable<Parts> || ...) void renew(std::tuple<Parts...>& parts, Copies& copies) {
  const auto each = [&]<class Part>(Part& part) {
    if constexpr (Renewable<Part>) renew(part, copies);
  };
  std::apply([&](Parts&... part) { (each(part), ...); }, parts);
}

template <class First, class Second>
requires(Renewable<First> || Renewable<Second>) void renew(std::pair<First, Second>& parts,
                                                           Copies& copies) {
  auto both = std::tie(parts.first, parts.second);
  renew(both, copies);
}

/// A struct of the user's that names its tensors, as a batch does.
template <OfTensors Options>
requires(!std::derived_from<Options, torch::nn::Module>) void renew(Options& options,
                                                                    Copies& copies) {
  auto parts = options.tensors();
  renew(parts, copies);
}

/// The tensors and modules that option structs of LibTorch may hold.
inline constexpr std::tuple kOptions = {
    [](auto& options) -> decltype((options._weight())) { return options._weight(); },
    [](auto& options) -> decltype((options.weight())) { return options.weight(); },
    [](auto& options) -> decltype((options.pos_weight())) { return options.pos_weight(); },
    [](auto& options) -> decltype((options._random_samples())) {
      return options._random_samples();
    },
    [](auto& options) -> decltype((options.norm())) { return options.norm(); },
    [](auto& options) -> decltype((options.encoder_layer())) { return options.encoder_layer(); },
    [](auto& options) -> decltype((options.decoder_layer())) { return options.decoder_layer(); },
    [](auto& options) -> decltype((options.custom_encoder())) { return options.custom_encoder(); },
    [](auto& options) -> decltype((options.custom_decoder())) { return options.custom_decoder(); }};

template <class Options, class Option>
concept HasOption = requires(Options& options, Option option, Copies& copies) {
  renew(option(options), copies);
};

template <class Options>
inline constexpr bool kHasOptions = std::apply(
    []<class... Option>(const Option&...) { return (HasOption<Options, Option> || ...); },
    kOptions);

template <class Options>
requires(std::is_class_v<Options> && !std::derived_from<Options, torch::nn::Module> &&
         kHasOptions<Options>) void renew(Options& options, Copies& copies) {
  const auto each = [&]<class Option>(const Option& option) {
    if constexpr (HasOption<Options, Option>) renew(option(options), copies);
  };
  std::apply([&](const auto&... option) { (each(option), ...); }, kOptions);
}

/// An argument as the caller passed it: std::ref(x) is x.
template <class Arg>
constexpr Arg& unwrapped(Arg& arg) {
  return arg;
}
template <class Arg>
constexpr Arg& unwrapped(const std::reference_wrapper<Arg>& arg) {
  return arg;
}
template <class Arg>
constexpr Arg& unwrapped(std::reference_wrapper<Arg>& arg) {
  return arg;
}

/// What is kept of an argument of type `Arg`, which is deduced as for std::forward.
template <class Arg>
struct Argument {
  using Given = std::remove_reference_t<decltype(unwrapped(std::declval<Arg&>()))>;  // maybe const
  using Value = std::remove_const_t<Given>;
  static constexpr bool is_copied = Renewable<Value> && std::copy_constructible<Value>;
  static constexpr bool is_lvalue =
      std::is_lvalue_reference_v<Arg> || !std::is_same_v<Given, std::remove_reference_t<Arg>>;

  using Kept = std::conditional_t<is_copied, Value, Given&>;
  /// For constructors that take values or const references.
  using Moved = std::conditional_t<is_copied, Value&&, const Given&>;
  /// For constructors that take references: as the caller passed it.
  using Same = std::conditional_t<is_lvalue, Given&, Moved>;
};

/// How towers make their models: at the same time, or one after the other, in the order of towers.
enum class Making { at_once, in_turn };

/// Makes models from copies of the same arguments; on any thread.
template <class Model, class... Args>
class ModelMaker {
  static constexpr bool kMoves = is_constructible<Model, typename Argument<Args>::Moved...>();

 public:
  /// A constructor that takes references may write to the caller's objects.
  static constexpr Making kMaking = kMoves ? Making::at_once : Making::in_turn;

  explicit ModelMaker(Args&... args) : args_(unwrapped(args)...) {}

  std::shared_ptr<Model> operator()() const {
    if constexpr (is_model<Model>()) {
      if constexpr (kMoves) {
        Kept kept = copies();
        return made<typename Argument<Args>::Moved...>(kept, [](auto&&... each) {
          return std::make_shared<Model>(std::forward<decltype(each)>(each)...);
        });
      } else if constexpr (takes_arguments<Model, typename Argument<Args>::Same...>()) {
        // The model may keep references to what it was given, so that lives as long as the model.
        const auto kept = std::make_shared<Kept>(copies());
        return made<typename Argument<Args>::Same...>(*kept, [&](auto&&... each) {
          using Module = ModuleOf<Model>;
          const std::shared_ptr<Module> module(new Module(std::forward<decltype(each)>(each)...),
                                               [kept](Module* of) { delete of; });
          if constexpr (kIsHolder<Model>)
            return std::make_shared<Model>(module);
          else
            return module;
        });
      }
    }
    return nullptr;
  }

 private:
  using Kept = std::tuple<typename Argument<Args>::Kept...>;

  Kept copies() const {
    const std::scoped_lock lock(mutex_);  // modules need not be safe to clone on several threads
    Copies copies;
    const auto keep = [&]<class Arg>(std::type_identity<Arg>, auto& arg) -> typename Arg::Kept {
      if constexpr (Arg::is_copied) {
        typename Arg::Value copy = arg;
        renew(copy, copies);
        return copy;
      } else {
        return arg;
      }
    };
    return std::apply(
        [&](auto&... args) { return Kept{keep(std::type_identity<Argument<Args>>{}, args)...}; },
        args_);
  }

  template <class... As, class Make>
  static auto made(Kept& kept, const Make& make) {
    return std::apply([&](auto&... each) { return make(static_cast<As>(each)...); }, kept);
  }

  std::tuple<typename Argument<Args>::Given&...> args_;
  mutable std::mutex mutex_;
};

/// Makes models with a function of the caller's.
template <class Model, class Factory>
class FactoryMaker {
 public:
  static constexpr Making kMaking = Making::in_turn;  // what it captures need not be thread-safe

  explicit FactoryMaker(Factory& factory) : factory_(factory) {}

  std::shared_ptr<Model> operator()() const {
    if constexpr (is_model<Model>() && is_factory<Model, Factory>()) {
      auto made = factory_();
      if constexpr (kIsHolder<Model>)
        return std::make_shared<Model>(std::move(made));
      else if constexpr (kIsHolder<decltype(made)>)
        return made.ptr();
      else
        return made;
    }
    return nullptr;
  }

 private:
  Factory& factory_;
};

}  // namespace lockstep::detail
