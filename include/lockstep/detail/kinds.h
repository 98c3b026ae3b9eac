#pragma once

// What a type is to a batch, decided by the compiler. The contract is in batch.h.

#include <torch/torch.h>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lockstep {

/// A batch type that cuts itself.
template <class Batch>
concept OwnBatch = requires(const Batch& batch) {
  { batch.shard(0, 1) } -> std::convertible_to<Batch>;
};

template <class Batch>
concept OwnRows = requires(const Batch& batch) {
  { batch.rows() } -> std::convertible_to<std::int64_t>;
};

/// A batch type that names its members that are cut: tensors, or other batches.
template <class Batch>
concept OfTensors = std::copyable<Batch> && requires(Batch& batch) {
  batch.tensors();
};

/// A type that copies itself to a device.
template <class Batch>
concept OwnTo = requires(const Batch& batch, torch::Device device) {
  { batch.to(device) } -> std::convertible_to<Batch>;
};

/// The same in every shard: made by whole().
template <class T>
struct Whole {
  T value;
};

/// Tensors whose rows are not their first dimension: made by along().
template <class T>
struct Along {
  int dim = 0;
  T value;
};

/// Items of which each is one row: made by list().
template <class Item>
struct List {
  std::vector<Item> items;
};

/// An Example without a target.
template <class Data>
using DataOnly = torch::data::Example<Data, torch::data::example::NoTarget>;

namespace detail {

/// A type's kind: the bits of everything in it.
inline constexpr unsigned kTensor = 1;  ///< tensors, cut along a dimension
inline constexpr unsigned kOwn = 2;     ///< lists, and types that cut themselves
inline constexpr unsigned kSame = 4;    ///< numbers and texts: the same in every shard
inline constexpr unsigned kInert =
    8;  ///< whole() and list() only: holds no tensors, or moves itself
inline constexpr unsigned kVague = 16;    ///< vectors of kSame and kInert: rows, or not?
inline constexpr unsigned kUnknown = 32;  ///< might hold tensors that Lockstep cannot see
inline constexpr unsigned kItself = 64;   ///< types that cut themselves, not by rows

template <class T>
constexpr unsigned kind_of_other() {
  if (OwnBatch<T>) return kOwn | kItself;
  if (std::is_arithmetic_v<T> || std::is_enum_v<T>) return kSame;
  return OwnTo<T> || std::is_trivially_copyable_v<T> ? kInert : kUnknown;
}

template <class T>
inline constexpr unsigned kKind = kind_of_other<T>();

/// In whole() and list(), where nothing is cut.
template <class T>
inline constexpr bool kKnown = (kKind<T> & kUnknown) == 0;

/// Several items: with numbers in them it is not clear whether each is one row.
constexpr unsigned several(unsigned item) {
  return (item & (kSame | kInert)) != 0 ? item | kVague : item;
}

template <class Result>
inline constexpr unsigned kTied = kUnknown;  ///< tensors() has to return references
template <class... Parts>
inline constexpr unsigned kTied<std::tuple<Parts&...>> = (0U | ... | kKind<Parts>);

template <>
inline constexpr unsigned kKind<torch::Tensor> = kTensor;
template <>
inline constexpr unsigned kKind<std::string> = kSame;
template <OfTensors Batch>
inline constexpr unsigned kKind<Batch> =
    OwnBatch<Batch> ? kOwn | kItself : kTied<decltype(std::declval<Batch&>().tensors())>;
template <class T>
inline constexpr unsigned kKind<Whole<T>> = kKnown<T> ? 0 : kUnknown;
template <class T>
inline constexpr unsigned kKind<Along<T>> = kKind<T> == kTensor ? kOwn : kUnknown;
template <class Item>
inline constexpr unsigned kKind<List<Item>> = kKnown<Item> ? kOwn : kUnknown;
template <class Data, class Target>
inline constexpr unsigned kKind<torch::data::Example<Data, Target>> = kKind<Data> | kKind<Target>;
template <class Data>
inline constexpr unsigned kKind<DataOnly<Data>> = kKind<Data>;
template <class First, class Second>
inline constexpr unsigned kKind<std::pair<First, Second>> = kKind<First> | kKind<Second>;
template <class... Parts>
inline constexpr unsigned kKind<std::tuple<Parts...>> = (0U | ... | kKind<Parts>);
template <class T>
inline constexpr unsigned kKind<std::optional<T>> = kKind<T>;
template <class Key, class T, class Less>
inline constexpr unsigned kKind<std::map<Key, T, Less>> = kKind<T>;
template <class Key, class T, class Hash, class Equal>
inline constexpr unsigned kKind<std::unordered_map<Key, T, Hash, Equal>> = kKind<T>;
template <class Key, class T>
inline constexpr unsigned kKind<torch::OrderedDict<Key, T>> = kKind<T>;
template <class Item, std::size_t size>
inline constexpr unsigned kKind<std::array<Item, size>> = several(kKind<Item>);
template <class Item>
inline constexpr unsigned kKind<std::vector<Item>> = several(kKind<Item>);
template <class Data, class Target>
inline constexpr unsigned kKind<std::vector<torch::data::Example<Data, Target>>> =
    kKind<List<torch::data::Example<Data, Target>>>;

/// Whether a step can cut a batch of this type.
template <class Batch>
inline constexpr bool kShardable = (kKind<Batch> & (kTensor | kOwn)) != 0 &&
                                   (kKind<Batch> & (kInert | kVague | kUnknown)) == 0;

/// A list of items, each of which is one row.
template <class Batch>
inline constexpr bool kIsList = false;
template <class Item>
inline constexpr bool kIsList<List<Item>> = true;
template <class Data, class Target>
inline constexpr bool kIsList<std::vector<torch::data::Example<Data, Target>>> = true;

template <class Batch>
inline constexpr bool kIsVector = false;
template <class Item>
inline constexpr bool kIsVector<std::vector<Item>> = true;

/// Whether a batch of this type may have only the rows of some shards. Not one that cuts itself;
/// nor a vector that is no list: it may be of items, of which each is a row for the input only.
template <class Batch>
inline constexpr bool kPortionable = kShardable<Batch> && (kKind<Batch> & kItself) == 0 &&
                                     (kIsList<Batch> || !kIsVector<Batch>);

}  // namespace detail

}  // namespace lockstep
