#pragma once

// Results of an evaluation as bytes, which go from machine to machine: then each machine evaluates
// its part of the batches. Numbers, bools, enums, texts and tensors travel, and vectors, arrays,
// maps and optionals of what does. So does a struct of yours that offers
//
//   auto fields() { return std::tie(first, second); }  // all of its members
//
// What does not travel is evaluated by every machine for itself, with the same result.

#include <torch/torch.h>

#include <array>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

namespace lockstep {
namespace detail {

template <class T>
constexpr bool kPlain = std::is_arithmetic_v<T> || std::is_enum_v<T>;
template <class T>
concept HasFields = requires(T& value) {
  value.fields();
};
template <class T>
concept IsMap = requires(T& value) {
  typename T::key_type;
  typename T::mapped_type;
  value[typename T::key_type{}];
};

template <class T>
struct Travelling : std::bool_constant<kPlain<T>> {};
template <class... T>
struct TravellingAll : std::bool_constant<(Travelling<std::remove_cvref_t<T>>::value && ...)> {};
template <>
struct Travelling<std::string> : std::true_type {};
template <>
struct Travelling<torch::Tensor> : std::true_type {};
template <class T>
struct Travelling<std::vector<T>> : Travelling<T> {};
template <class T, std::size_t n>
struct Travelling<std::array<T, n>> : Travelling<T> {};
template <class T>
struct Travelling<std::optional<T>> : Travelling<T> {};
template <IsMap T>
struct Travelling<T> : TravellingAll<typename T::key_type, typename T::mapped_type> {};
template <class... T>
struct Travelling<std::tuple<T...>> : TravellingAll<T...> {};
template <HasFields T>
struct Travelling<T> : Travelling<decltype(std::declval<T&>().fields())> {};

/// Appends values to bytes.
class Packer {
 public:
  template <class T>
  void put(T& value) {
    using Value = std::remove_const_t<T>;
    if constexpr (kPlain<Value>) {
      raw(&value, sizeof value);
    } else if constexpr (std::is_same_v<Value, torch::Tensor>) {
      put_tensor(value);
    } else if constexpr (HasFields<Value>) {
      std::apply([this](auto&... field) { (put(field), ...); }, value.fields());
    } else if constexpr (requires { value.has_value(); }) {
      size(value.has_value());
      if (value) put(*value);
    } else if constexpr (IsMap<Value>) {
      size(value.size());
      for (auto& [key, mapped] : value) {
        put(key);
        put(mapped);
      }
    } else {
      size(value.size());
      for (auto& item : value) put(item);
    }
  }

  std::string bytes;

 private:
  void raw(const void* from, std::size_t count) {
    bytes.append(static_cast<const char*>(from), count);
  }
  void size(std::size_t count) { raw(&count, sizeof count); }
  void put_tensor(const torch::Tensor& tensor) {
    size(tensor.defined());
    if (!tensor.defined()) return;
    const torch::Tensor values = tensor.detach().cpu().contiguous();
    std::vector<std::int64_t> sizes = values.sizes().vec();
    const auto type = values.scalar_type();
    put(type);
    put(sizes);
    raw(values.const_data_ptr(), values.nbytes());
  }
};

/// Reads them back in the same order. Throws std::runtime_error at the end of the bytes.
class Unpacker {
 public:
  explicit Unpacker(const std::string& bytes) : next_(bytes.data()), left_(bytes.size()) {}

  template <class T>
  void get(T& value) {
    if constexpr (kPlain<T>) {
      raw(&value, sizeof value);
    } else if constexpr (std::is_same_v<T, torch::Tensor>) {
      get_tensor(value);
    } else if constexpr (HasFields<T>) {
      std::apply([this](auto&... field) { (get(field), ...); }, value.fields());
    } else if constexpr (requires { value.has_value(); }) {
      if (size() > 0) get(value.emplace());
    } else if constexpr (IsMap<T>) {
      for (std::size_t count = size(); count > 0; --count) {
        typename T::key_type key{};
        get(key);
        get(value[key]);
      }
    } else if constexpr (requires { value.resize(1); }) {
      const std::size_t count = size();
      if (count > left_) cut_off();  // an item has at least a byte
      value.resize(count);
      for (auto& item : value) get(item);
    } else {
      if (size() != value.size()) cut_off();
      for (auto& item : value) get(item);
    }
  }

 private:
  [[noreturn]] static void cut_off() {
    throw std::runtime_error("a result from another machine is cut off");
  }
  void raw(void* into, std::size_t count) {
    if (count > left_) cut_off();
    if (count > 0) std::memcpy(into, next_, count);
    next_ += count;
    left_ -= count;
  }
  std::size_t size() {
    std::size_t count = 0;
    raw(&count, sizeof count);
    return count;
  }
  void get_tensor(torch::Tensor& tensor) {
    if (size() == 0) return;
    torch::ScalarType type{};
    std::vector<std::int64_t> sizes;
    get(type);
    get(sizes);
    tensor = torch::empty(sizes, type);
    raw(tensor.mutable_data_ptr(), tensor.nbytes());
  }

  const char* next_;
  std::size_t left_;
};

}  // namespace detail

template <class T>
concept Travels = std::is_default_constructible_v<T> && detail::Travelling<T>::value;

template <Travels T>
std::string to_bytes(T& value) {
  detail::Packer packer;
  packer.put(value);
  return std::move(packer.bytes);
}

/// Throws std::runtime_error for bytes that are too few.
template <Travels T>
T from_bytes(const std::string& bytes) {
  T value{};
  detail::Unpacker(bytes).get(value);
  return value;
}

}  // namespace lockstep
