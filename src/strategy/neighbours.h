#pragma once

// What machines keep of each other, so that nothing is lost with one of them.

#include <lockstep/machines.h>
#include <lockstep/state.h>

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "strategy/flat.h"
#include "strategy/roster.h"
#include "strategy/towers.h"

namespace lockstep::strategy {

/// After every step each machine copies its state. What its towers alone have, slots and moving
/// averages, goes to the machine after it, too. A copy counts from confirm() on; until then, the
/// one before it does.
class Neighbours {
 public:
  /// `map` must live on.
  Neighbours(std::shared_ptr<Machines> machines, const ParameterMap& map);

  /// On all machines, between steps. `state` has all but slots and averages.
  void copy(State state, Towers& towers);
  /// When all machines are known to have copied.
  void confirm() { counts_ = 1 - counts_; }

  struct Rescued {
    State state;              ///< all but slots and averages
    std::vector<Flats> kept;  ///< those: see Tower::kept, as whole arenas
  };
  /// The copy that counts. Nothing when a machine is not `able` to go on, or is gone together with
  /// the one after it. All who are left call it, after regroup().
  std::optional<Rescued> put_together(bool able) const;

 private:
  struct Copy {
    State state;
    Roster roster;
    std::size_t flats = 0;             // that a tower keeps
    std::vector<torch::Tensor> parts;  // by machine: bytes, of this one and the one before it
  };

  template <class Work>
  std::int64_t for_each_slice(const Copy& copy, int machine, const Work& work) const;
  torch::Tensor room_for(const Copy& copy, int machine, const torch::Tensor& old = {}) const;
  void pack(Copy& copy, Towers& towers) const;
  void unpack(const Copy& copy, int machine, const torch::Tensor& part,
              const std::vector<Flats>& whole) const;
  std::vector<int> holders(const Copy& copy, bool able) const;

  const std::shared_ptr<Machines> machines_;
  const ParameterMap& map_;
  std::array<Copy, 2> copies_;
  std::size_t counts_ = 0;  // which of them
};

}  // namespace lockstep::strategy
