#include "strategy/flat.h"

#include <lockstep/error.h>

namespace lockstep::strategy {

ParameterMap::ParameterMap(const std::vector<arena::Layout>& all, std::int64_t bucket_bytes)
    : layouts(all), buckets(arena::buckets(all, bucket_bytes)) {
  std::size_t parameters = 0;
  for (const arena::Layout& layout : layouts) parameters += layout.seats.size();
  seats.resize(parameters);
  buckets_of.resize(parameters);
  for (const arena::Layout& layout : layouts)
    for (const arena::Seat& seat : layout.seats) seats[seat.entry] = &seat;
  for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    const auto& [arena, range] = buckets[bucket];
    for (const arena::Seat& seat : layouts[arena].seats)
      if (seat.offset < range.end && seat.offset + seat.numel > range.begin)
        buckets_of[seat.entry].push_back(bucket);
  }
}

Flats allocate(const std::vector<arena::Layout>& layouts, torch::Device device) {
  Flats flats;
  for (const arena::Layout& layout : layouts) flats.push_back(arena::allocate(layout, device));
  return flats;
}

void copy_all(const Flats& to, const Flats& from) {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
}

Flats slices_of(const Flats& whole, const std::vector<arena::Bucket>& buckets, int rank,
                int towers) {
  Flats slices;
  for (const arena::Bucket& bucket : buckets) {
    const arena::Slice range = arena::slice_of(bucket, rank, towers);
    slices.push_back(whole[bucket.arena].narrow(0, range.begin, range.size()));
  }
  return slices;
}

std::string described(torch::ScalarType dtype, at::IntArrayRef sizes) {
  return std::string(torch::toString(dtype)) + " " + c10::str(sizes);
}

std::string own_name(const arena::Seat& seat) { return seat.name; }

std::vector<NamedTensor> named(const Flats& whole, const std::vector<arena::Layout>& layouts,
                               const Naming& name) {
  std::vector<NamedTensor> result;
  for (std::size_t i = 0; i < whole.size(); ++i)
    for (const arena::Seat& seat : layouts[i].seats)
      if (std::string own = name(seat); !own.empty())
        result.push_back({std::move(own), arena::view(whole[i], seat).clone()});
  return result;
}

ByName::ByName(const std::vector<NamedTensor>& tensors) {
  for (const NamedTensor& tensor : tensors) by_name_[tensor.name] = &tensor.value;
}

const torch::Tensor& ByName::at(const std::string& name, at::IntArrayRef sizes,
                                torch::ScalarType dtype) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end())
    throw ConfigError("the state has no '" + name + "': it is of another model or optimizer.");
  const torch::Tensor& value = *found->second;
  if (value.sizes() != sizes || value.scalar_type() != dtype)
    throw ConfigError("'" + name + "' of the state is " +
                      described(value.scalar_type(), value.sizes()) + ", and the model's is " +
                      described(dtype, sizes) + ".");
  return value;
}

Flats ByName::flats(const std::vector<arena::Layout>& layouts, const Naming& name) const {
  const torch::NoGradGuard no_grad;
  Flats whole = allocate(layouts, torch::kCPU);
  for (std::size_t i = 0; i < layouts.size(); ++i)
    for (const arena::Seat& seat : layouts[i].seats)
      if (const std::string own = name(seat); !own.empty())
        arena::view(whole[i], seat).copy_(at(own, seat.sizes, layouts[i].dtype));
  return whole;
}

}  // namespace lockstep::strategy
