#pragma once

// The weights of the last updates, with their slots and moving averages: what asynchronous updates
// read and write.
//
// Version v is what v updates have made. As many versions before the newest are kept as a gradient
// may be late. On the CPU one owner has all of it. Of accelerators each owns a slice, so that slots
// exist once, and a tower copies the version that it computes with.

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <lockstep/device.h>
#include <lockstep/method.h>

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "optim/slice_update.h"
#include "strategy/flat.h"

namespace lockstep::strategy {

/// A gradient: whole arenas on the device that computed it. On an accelerator its events say when
/// it may be read, and when it may be written again.
struct Gradient {
  Flats flats = {};
  std::size_t device = 0;  ///< the number of the owner on that device
  std::shared_ptr<c10::Event> ready = nullptr;
  std::vector<std::shared_ptr<c10::Event>> used = {};
};

/// One thread at a time makes versions and saves; any thread may take one that is not the next to
/// be dropped.
class Versions {
 public:
  /// Version 0 is zero everywhere: see restore(). `older` are kept before the newest.
  Versions(const Method& method, const ParameterMap& map, const std::vector<Device>& owners,
           int older);
  ~Versions();
  Versions(const Versions&) = delete;
  Versions& operator=(const Versions&) = delete;

  std::int64_t newest() const { return newest_; }
  std::int64_t oldest() const { return oldest_; }

  /// On the CPU: the arenas of a version themselves.
  const Flats& whole(std::int64_t version) const { return owners_.front().ring[slot(version)]; }
  /// Copies a version into whole arenas on any device, in place; on an accelerator on its current
  /// stream.
  void pull(std::int64_t version, const Flats& into) const;
  /// Writes the newest version, in place, from whole arenas on the CPU.
  void write(const Flats& whole);

  /// Makes the next version by an update. The gradient was computed with `version`, or with a copy
  /// of that, `then`, where it is not kept any more.
  void update(const Method& method, const optim::Moment& moment, Gradient& gradient,
              std::span<const char> reached, std::int64_t version, const Flats& then = {});
  /// Makes the next version a copy of the newest one.
  void skip(Gradient& gradient);

  void prepare_swap();
  void swap_average();  ///< exchanges the newest weights and their moving average
  void reset_slots(const Method& method, std::span<const char> chosen);

  /// What is kept beside the weights, as whole arenas on the CPU: by slot, and last the moving
  /// average if there is one.
  std::vector<Flats> kept() const;
  /// Begins anew with these weights, oldest first, as the versions up to `newest`. `kept` as above;
  /// empty: as new.
  void restore(const std::vector<Flats>& versions, const std::vector<Flats>& kept,
               std::int64_t newest);

  /// The gradient that was applied last, on accelerators: whole arenas on the CPU.
  Flats landed() const;

  /// Waits for what owners have to do.
  void synchronize() const;

 private:
  struct Owner {
    Device device;
    std::vector<arena::Slice> ranges;        // by arena
    std::vector<Flats> ring;                 // by version modulo its size: a flat an arena
    std::deque<optim::SliceUpdate> updates;  // by arena
    // Of an accelerator:
    Flats landing;                         // the gradient that is applied
    Flats before;                          // what it was computed with, for compensation
    std::unique_ptr<c10::Stream> stream;   // of updates
    std::unique_ptr<c10::Stream> giving;   // of versions that are copied from here
    std::unique_ptr<c10::Stream> sending;  // of gradients that go to others
    std::vector<std::shared_ptr<c10::Event>> written;  // by version modulo the ring's size
  };

  std::size_t slot(std::int64_t version) const {
    return static_cast<std::size_t>(version) % ring_size_;
  }
  void note_written();
  template <class Owners, class Work>
  void for_each(Owners& owners, const Work& work) const;
  Flats joined(
      const std::function<torch::Tensor(const Owner& owner, std::size_t arena)>& part) const;
  void make_version(Gradient& gradient,
                    const std::function<void(Owner& owner, std::size_t arena)>& make);

  const ParameterMap& map_;
  const Method made_with_;
  const std::size_t ring_size_;
  const bool accelerators_;
  std::vector<Owner> owners_;
  std::int64_t newest_ = 0, oldest_ = 0;
};

}  // namespace lockstep::strategy
