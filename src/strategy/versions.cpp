#include "strategy/versions.h"

#include <c10/core/StreamGuard.h>

#include <algorithm>

#include "device/accelerator.h"
#include "optim/rules.h"

namespace lockstep::strategy {

Versions::Versions(const Method& method, const ParameterMap& map, const std::vector<Device>& owners,
                   int older)
    : map_(map),
      made_with_(method),
      ring_size_(static_cast<std::size_t>(older) + 1),
      accelerators_(device::is_accelerator(owners.front().kind)) {
  const torch::NoGradGuard no_grad;
  const int count = accelerators_ ? static_cast<int>(owners.size()) : 1;
  for (int number = 0; number < count; ++number) {
    Owner& owner = owners_.emplace_back();
    owner.device = owners[static_cast<std::size_t>(number)];
    const torch::Device device = device::torch_device(owner.device);
    owner.ring.resize(ring_size_);
    for (std::size_t i = 0; i < map_.layouts.size(); ++i) {
      const arena::Layout& layout = map_.layouts[i];
      const arena::Slice range = arena::slice_of({i, {0, layout.size}}, number, count);
      owner.ranges.push_back(range);
      for (Flats& version : owner.ring)
        version.push_back(arena::allocate(range.size(), layout.dtype, device));
      const torch::Tensor landing =
          accelerators_ ? arena::allocate(range.size(), layout.dtype, device) : torch::Tensor();
      owner.landing.push_back(landing);
      if (accelerators_ && method.async && method.async->compensation != 0)
        owner.before.push_back(torch::empty_like(landing));
      owner.updates.emplace_back(layout, range, owner.ring[0][i],
                                 accelerators_ ? landing : owner.ring[0][i], made_with_);
    }
    if (!accelerators_) continue;
    owner.written.resize(ring_size_);
    for (auto* stream : {&owner.stream, &owner.giving, &owner.sending}) {
      *stream = std::make_unique<c10::Stream>(device::new_stream(owner.device));
      device::order(device::current_stream(owner.device), **stream);  // its memory is ready
    }
  }
}

/// Their memory goes back to the compute streams: nothing may be at work there any more.
Versions::~Versions() {
  try {
    synchronize();
  } catch (...) {  // a device is gone, and its memory with it
  }
}

void Versions::synchronize() const {
  for (const Owner& owner : owners_)
    for (const auto* stream : {&owner.stream, &owner.giving, &owner.sending})
      if (*stream) (*stream)->synchronize();
}

/// Calls work(owner, arena) with the owner's stream as the current one of its device.
template <class Owners, class Work>
void Versions::for_each(Owners& owners, const Work& work) const {
  const torch::NoGradGuard no_grad;
  for (auto& owner : owners) {
    c10::SmallVector<c10::Stream, 1> streams;
    if (owner.stream) streams.push_back(*owner.stream);
    const c10::MultiStreamGuard guard(streams);
    for (std::size_t i = 0; i < map_.layouts.size(); ++i) work(owner, i);
  }
}

void Versions::pull(std::int64_t version, const Flats& into) const {
  const torch::NoGradGuard no_grad;
  for (const Owner& owner : owners_) {
    // A copy between devices is ordered on the current streams of both. One inside a device stays
    // on the stream of who asks for it.
    const bool inside = owner.stream && into.front().device() == owner.stream->device();
    c10::SmallVector<c10::Stream, 1> streams;
    if (owner.stream && !inside) streams.push_back(*owner.giving);
    const c10::MultiStreamGuard guard(streams);
    if (owner.stream) owner.written[slot(version)]->block(device::current_stream(owner.device));
    for (std::size_t i = 0; i < map_.layouts.size(); ++i) {
      const auto& [begin, end] = owner.ranges[i];
      into[i].narrow(0, begin, end - begin).copy_(owner.ring[slot(version)][i]);
    }
    if (inside) device::order(device::current_stream(owner.device), *owner.giving);
  }
}

void Versions::write(const Flats& whole) {
  for_each(owners_, [&](const Owner& owner, std::size_t i) {
    const auto& [begin, end] = owner.ranges[i];
    owner.ring[slot(newest_)][i].copy_(whole[i].narrow(0, begin, end - begin));
  });
  note_written();
}

/// What is copied of the newest version from now on is what owners have written by now.
void Versions::note_written() {
  for (Owner& owner : owners_) {
    if (!owner.stream) continue;
    auto& event = owner.written[slot(newest_)];
    event = std::make_shared<c10::Event>(owner.stream->device_type());
    event->record(*owner.stream);
  }
}

void Versions::make_version(Gradient& gradient,
                            const std::function<void(Owner& owner, std::size_t arena)>& make) {
  const torch::NoGradGuard no_grad;
  gradient.used.clear();
  for (Owner& owner : owners_) {
    c10::SmallVector<c10::Stream, 2> streams;
    if (owner.stream) {
      Owner& source = owners_[gradient.device];
      const bool own = &source == &owner;
      c10::Stream& sending = own ? *owner.stream : *source.sending;
      gradient.ready->block(sending);
      gradient.ready->block(*owner.stream);
      device::order(*owner.giving, *owner.stream);  // what was copied may be overwritten
      streams.push_back(*owner.stream);
      if (!own) streams.push_back(sending);
    }
    const c10::MultiStreamGuard guard(streams);
    for (std::size_t i = 0; i < map_.layouts.size(); ++i) make(owner, i);
    if (!owner.stream) continue;
    gradient.used.push_back(std::make_shared<c10::Event>(owner.stream->device_type()));
    gradient.used.back()->record(*owner.stream);
  }
  ++newest_;
  oldest_ = std::max(oldest_, newest_ - static_cast<std::int64_t>(ring_size_) + 1);
  note_written();
}

void Versions::update(const Method& method, const optim::Moment& moment, Gradient& gradient,
                      std::span<const char> reached, std::int64_t version, const Flats& then) {
  make_version(gradient, [&](Owner& owner, std::size_t i) {
    const auto& [begin, end] = owner.ranges[i];
    torch::Tensor own = gradient.flats[i].narrow(0, begin, end - begin);
    if (accelerators_) own = owner.landing[i].copy_(own);
    const torch::Tensor &from = owner.ring[slot(newest_)][i],
                        &into = owner.ring[slot(newest_ + 1)][i];
    torch::Tensor before;
    if (moment.compensation != 0)
      before = then.empty() ? owner.ring[slot(version)][i] : then[i].narrow(0, begin, end - begin);
    if (!then.empty() && accelerators_) before = owner.before[i].copy_(before);
    owner.updates[i].retarget(from, into, own, before);
    owner.updates[i].apply(method, moment, reached);
  });
}

void Versions::skip(Gradient& gradient) {
  make_version(gradient, [&](Owner& owner, std::size_t i) {
    const torch::Tensor &from = owner.ring[slot(newest_)][i],
                        &into = owner.ring[slot(newest_ + 1)][i];
    if (!from.is_same(into)) into.copy_(from);
  });
}

void Versions::prepare_swap() {
  for (Owner& owner : owners_)
    for (optim::SliceUpdate& update : owner.updates) update.prepare_swap();
}

void Versions::swap_average() {
  for (Owner& owner : owners_)
    for (std::size_t i = 0; i < owner.updates.size(); ++i) {
      const torch::Tensor& newest = owner.ring[slot(newest_)][i];
      owner.updates[i].retarget(newest, newest, newest, {});
    }
  for_each(owners_, [&](Owner& owner, std::size_t i) { owner.updates[i].swap_average(); });
  note_written();
}

void Versions::reset_slots(const Method& method, std::span<const char> chosen) {
  for_each(owners_, [&](Owner& owner, std::size_t i) { owner.updates[i].reset(method, chosen); });
}

Flats Versions::joined(
    const std::function<torch::Tensor(const Owner& owner, std::size_t arena)>& part) const {
  const Flats whole = allocate(map_.layouts, torch::kCPU);
  for_each(owners_, [&](const Owner& owner, std::size_t i) {
    const auto& [begin, end] = owner.ranges[i];
    whole[i].narrow(0, begin, end - begin).copy_(part(owner, i));
  });
  return whole;
}

std::vector<Flats> Versions::kept() const {
  std::vector<Flats> kept;
  for (std::size_t slot = 0; slot < optim::most_slots(made_with_); ++slot)
    kept.push_back(
        joined([&](const Owner& owner, std::size_t i) { return owner.updates[i].slots()[slot]; }));
  if (made_with_.moving_average)
    kept.push_back(
        joined([&](const Owner& owner, std::size_t i) { return owner.updates[i].average(); }));
  return kept;
}

Flats Versions::landed() const {
  return joined([](const Owner& owner, std::size_t i) { return owner.landing[i]; });
}

void Versions::restore(const std::vector<Flats>& versions, const std::vector<Flats>& kept,
                       std::int64_t newest) {
  const std::int64_t begin = newest - static_cast<std::int64_t>(versions.size()) + 1;
  newest_ = begin - 1;
  for (const Flats& version : versions) {
    ++newest_;
    write(version);
  }
  oldest_ = std::max(begin, newest_ - static_cast<std::int64_t>(ring_size_) + 1);
  for_each(owners_, [&](const Owner& owner, std::size_t i) {
    const auto& [first, end] = owner.ranges[i];
    const auto part = [&](const Flats& whole) { return whole[i].narrow(0, first, end - first); };
    for (std::size_t slot = 0; slot < kept.size(); ++slot) {
      const bool average = slot == owner.updates[i].slots().size();
      const torch::Tensor& own =
          average ? owner.updates[i].average() : owner.updates[i].slots()[slot];
      torch::Tensor(own).copy_(part(kept[slot]));
    }
  });
}

}  // namespace lockstep::strategy
