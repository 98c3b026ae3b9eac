#pragma once

// A tower's replica of the model, and the tensors that all replicas have in common.

#include <lockstep/detail/place.h>
#include <lockstep/device.h>
#include <torch/torch.h>

#include <memory>
#include <optional>
#include <vector>

#include "arena/arena.h"
#include "strategy/flat.h"
#include "strategy/parts.h"
#include "strategy/watch.h"

namespace lockstep::strategy {

using detail::Place;

/// One replica: its module and what is registered there.
struct Replica {
  std::shared_ptr<torch::nn::Module> module;
  std::vector<std::shared_ptr<torch::nn::Module>> modules;  ///< it and all inside it
  Parts parts;
  arena::Tensors tensors;
  Flats buffers;     ///< its own copy
  Watch watch = {};  ///< over what a forward pass does to its tensors
};

/// Throws ConfigError unless both have tensors of the same names, sizes and types. The message has
/// the function that they come from, and what they are two of.
void require_same(const arena::Tensors& a, const arena::Tensors& b, const std::string& from,
                  const std::string& two);

/// All replicas of a model. Parameters, trainable or frozen, exist once a memory, and every replica
/// there views them: CPU devices share one, an accelerator has its own. Buffers exist once a
/// replica. The first replica is the one that the caller sees and may write to between steps.
///
/// With a home, that is another one: it is on the CPU, computes nothing, and shares no memory with
/// towers but that of parameters, as long as those sit where it does. See seat_at().
class Replicas {
 public:
  /// Seats the parameters of all modules, by device. `sample`, made on the CPU, has the values that
  /// count; without one they are those of the first module. The last module is the `home`, if there
  /// is one. Throws ConfigError when the modules differ, or have nothing to train.
  Replicas(std::vector<std::shared_ptr<torch::nn::Module>> modules,
           const std::vector<Device>& devices, const torch::nn::Module* sample, bool home = false);

  Replica& operator[](Place place) { return replicas_[place.index()]; }
  const Replica& operator[](Place place) const { return replicas_[place.index()]; }
  Place first() const { return home_ ? *home_ : places_.front(); }
  const std::vector<Place>& places() const { return places_; }   ///< at work; not the home
  const std::vector<Replica>& all() const { return replicas_; }  ///< retired ones, too

  const std::vector<arena::Layout>& layouts() const { return layouts_; }
  const std::vector<arena::Layout>& buffer_layouts() const { return buffer_layouts_; }
  /// Flat, as the replica at `place` sees them.
  const Flats& parameters(Place place) const { return memory_of(place).parameters; }

  torch::Device device(Place place) const { return devices_[place.index()]; }

  /// Takes over what the caller did to the first replica since the last step: tensors that
  /// torch::load put in place of seated ones, values, training modes.
  void adopt();

  // With a home. Between steps; the last three on a tower's thread.
  /// Seats again what the caller put in place of the home's tensors. Returns what the caller did.
  struct Written {
    bool values = false;  ///< of parameters or buffers, or the home was shown to it
    bool towers = false;  ///< of frozen parameters, or modes: towers do not have it yet
  };
  Written written_home();
  void spread_home();  ///< frozen parameters and modes, to all towers

  /// Seats the parameters of the replica at `place` in other arenas of the same layouts.
  void seat_at(Place place, const Flats& parameters);
  void begin_batch(Place place, const Flats& buffers);  ///< its shards start from those
  /// By parameter, of one replica.
  void require_gradients(Place place, const std::vector<char>& wanted);

  /// By parameter: whether the caller wants it trained, as requires_grad says on the first replica.
  std::vector<char> trainable() const;
  void require_gradients(const std::vector<char>& wanted);  ///< on all replicas

  /// The first replica was shown to the caller, or written: what it has goes to the others at the
  /// next adopt().
  void touch() { touched_ = shown_ = true; }

  /// Whether the first replica may have what others have not: adopt() failed while it spread that.
  bool ahead() const { return spreading_; }

  void begin_shard(Place place);  ///< buffers as they were at adopt()
  void begin_audit(Place place) { (*this)[place].watch.begin_audit((*this)[place].tensors); }
  void end_audit(Place place);
  /// Throws ConfigError when the shard has written a parameter, or put another tensor in the place
  /// of a registered one.
  void check_shard(Place place);
  Flats copy_buffers(Place place) const;  ///< what the shard made of them
  void restore_buffers();                 ///< of all replicas, as at adopt()
  /// After a failure: registered tensors sit where they sat at adopt(), buffers have their values.
  void recover();

  /// Whether a forward pass has written a parameter since adopt().
  bool weights_written() const;

  /// Averages buffers over shards, beside those in use: where shards differ, floating-point ones
  /// become the mean, in shard order, others take the first shard's value. `by_shard` holds what
  /// copy_buffers returned, empty shards left out. All that may run out of memory happens here: see
  /// "Note: buffers".
  void average_buffers(const std::vector<Flats>& by_shard);
  /// The same, as new tensors on the device of the first; nothing when all shards were empty.
  static Flats mean_of_buffers(const std::vector<Flats>& by_shard);
  /// Takes over what average_buffers made, on all replicas.
  void commit_buffers();

  /// Leaves the replica at `place` alone from now on: its device is gone.
  void retire(Place place);

 private:
  struct Memory {
    Flats parameters;
    Flats buffers;  // what a step starts from
    Flats next;     // what the next one will start from
  };

  const Memory& memory_of(Place place) const {
    return memories_[memories_.size() == 1 ? 0 : place.index()];
  }
  Memory& memory_of(Place place) { return memories_[memories_.size() == 1 ? 0 : place.index()]; }
  void take_over_first();
  bool same_modes(const Replica& replica) const;
  void readmit(arena::Entry& entry, const torch::Tensor& flat, const arena::Seat& seat);
  void seat_all(bool shared);
  void take_values(const torch::nn::Module& sample);
  void share_frozen();
  void spread();
  void require_same_parts();
  std::int64_t versions() const;
  std::int64_t frozen_versions() const;

  std::vector<Replica> replicas_;
  std::vector<torch::Device> devices_;  // by replica
  std::vector<Place> places_;           // at work
  std::optional<Place> home_;
  std::vector<arena::Layout> layouts_, buffer_layouts_;
  std::vector<Memory> memories_;
  bool touched_ = true;
  bool shown_ = true;         // the caller may have changed what the first replica consists of
  std::int64_t holders_ = 0;  // of its modules, when that was last looked at
  bool spreading_ = false;
  std::int64_t versions_ = 0;         // of the first replica's tensors when they were last alike
  std::int64_t frozen_versions_ = 0;  // of the home's, when towers had the same
};

}  // namespace lockstep::strategy
