#include "strategy/rescue.h"

#include "device/accelerator.h"

namespace lockstep::strategy {

bool retire(Replicas& replicas, Towers& towers, const std::set<std::string>& gone) {
  std::vector<Place> lost;
  for (const Place place : replicas.places())
    if (gone.contains(towers.device(place).name()) || !device::answers(towers.device(place)))
      lost.push_back(place);
  if (lost.empty() || lost.size() == replicas.places().size()) return false;
  if (lost.front() == replicas.first() && replicas.ahead()) return false;
  for (const Place place : lost) replicas.retire(place);
  return true;
}

Rescue::Rescue(Towers& towers, Replicas& replicas, const ParameterMap& map)
    : towers_(towers), replicas_(replicas), map_(map), mirrors_(replicas.places().size()) {}

void Rescue::mirror(const Tower& tower) {
  const std::vector<Flats> kept = tower.kept();
  std::vector<Flats>& mirror = mirrors_[tower.place.index()];
  mirror.resize(kept.size());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (mirror[i].empty())
      for (const torch::Tensor& part : kept[i])
        mirror[i].push_back(torch::empty(part.sizes(), part.options().device(torch::kCPU)));
    copy_all(mirror[i], kept[i]);
  }
}

bool Rescue::go_on_without(const std::string& device, Torn& torn) {
  const std::vector<Flats> kept = joined_mirrors();
  std::set<std::string> gone = {device};
  while (retire(replicas_, towers_, gone)) try {
      torn.until_done([&] { take_over(kept); });
      return true;
    } catch (const DeviceLost& lost) {  // one more
      gone = {lost.device};
    }
  return false;
}

/// Whole arenas of what towers kept.
std::vector<Flats> Rescue::joined_mirrors() const {
  std::vector<Flats> kept;
  for (std::size_t i = 0; i < mirrors_[towers_.front().place.index()].size(); ++i) {
    kept.push_back(allocate(map_.layouts, torch::kCPU));
    for (const Tower& tower : towers_)
      copy_all(slices_of(kept[i], map_.buckets, tower.rank, towers_.roster().total()),
               mirrors_[tower.place.index()][i]);
  }
  return kept;
}

/// Makes the towers of the places that are left, with the slots and averages in `kept`.
void Rescue::take_over(const std::vector<Flats>& kept) {
  mirrors_.assign(mirrors_.size(), {});  // slices are others
  towers_.make(replicas_.places());
  towers_.restore(kept);
  towers_.run([this](Tower& tower) { mirror(tower); });
}

}  // namespace lockstep::strategy
