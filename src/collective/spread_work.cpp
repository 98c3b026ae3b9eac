#include "collective/spread_work.h"

#include <cstring>
#include <memory>

#include "collective/machine_meeting.h"
#include "collective/tensor_letter.h"

namespace lockstep::collective {
namespace {

/// The elements of each layout that a machine works on.
class Cuts {
 public:
  Cuts(const std::vector<arena::Layout>& layouts, int machines)
      : layouts_(layouts), machines_(machines) {}

  arena::Slice of(std::size_t layout, int machine) const {
    const std::int64_t size = layouts_[layout].size;
    return {size * machine / machines_, size * (machine + 1) / machines_};
  }

  /// Room for so many lists of its part, one after the other.
  torch::Tensor room(int machine, std::size_t lists) const {
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < layouts_.size(); ++i) bytes += of(i, machine).size() * width(i);
    return torch::empty({bytes * static_cast<std::int64_t>(lists)}, torch::kByte);
  }

  /// Copies the part of `machine` of each list there, or of each list from there. In place.
  void pack(const std::vector<TensorList>& lists, int machine, const torch::Tensor& bytes) const {
    std::byte* next = writable_bytes_of(bytes).data();
    for_each_run(lists, machine, [&](std::span<std::byte> run) {
      std::memcpy(next, run.data(), run.size());
      next += run.size();
    });
  }
  void unpack(const torch::Tensor& bytes, int machine, const std::vector<TensorList>& lists) const {
    const std::byte* next = bytes_of(bytes).data();
    for_each_run(lists, machine, [&](std::span<std::byte> run) {
      std::memcpy(run.data(), next, run.size());
      next += run.size();
    });
  }

 private:
  std::int64_t width(std::size_t layout) const {
    return static_cast<std::int64_t>(c10::elementSize(layouts_[layout].dtype));
  }

  template <class F>
  void for_each_run(const std::vector<TensorList>& lists, int machine, const F& f) const {
    for (const TensorList& list : lists)
      for (std::size_t i = 0; i < list.size(); ++i) {
        const arena::Slice part = of(i, machine);
        f(writable_bytes_of(list[i].narrow(0, part.begin, part.size())));
      }
  }

  const std::vector<arena::Layout>& layouts_;
  const int machines_;
};

TensorList allocate(const std::vector<arena::Layout>& layouts) {
  TensorList list;
  for (const arena::Layout& layout : layouts) list.push_back(arena::allocate(layout, torch::kCPU));
  return list;
}

/// How many lists each machine brings.
std::vector<std::size_t> counts_of(Machines& machines, std::size_t mine) {
  std::vector<std::size_t> counts;
  for (const Bytes& bytes : machines.all_gather(std::as_bytes(std::span(&mine, 1)))) {
    counts.push_back(0);
    std::memcpy(&counts.back(), bytes.data(), sizeof(std::size_t));
  }
  return counts;
}

/// Sends out[machine] to each other machine, and takes in[machine] from it.
void trade(Machines& machines, const TensorList& out, const TensorList& in) {
  std::vector<std::unique_ptr<Machines::Transfer>> transfers;
  for (int machine = 0; machine < machines.size(); ++machine) {
    if (machine == machines.rank()) continue;
    const auto at = static_cast<std::size_t>(machine);
    transfers.push_back(machines.receive(machine, kSpreadTag, writable_bytes_of(in[at])));
    transfers.push_back(machines.send(machine, kSpreadTag, bytes_of(out[at])));
  }
  for (const auto& transfer : transfers) transfer->wait();
}

}  // namespace

TensorList spread_work(Machines& machines, const std::vector<TensorList>& mine,
                       const std::vector<arena::Layout>& layouts,
                       const std::function<TensorList(const std::vector<TensorList>&)>& work) {
  const torch::NoGradGuard no_grad;
  const Cuts cuts(layouts, machines.size());
  const int here = machines.rank();
  const std::vector<std::size_t> counts = counts_of(machines, mine.size());
  std::vector<TensorList> own;
  for (const TensorList& list : mine) {
    own.emplace_back();
    for (const torch::Tensor& flat : list) own.back().push_back(flat.cpu().contiguous());
  }
  TensorList out, in;
  for (int machine = 0; machine < machines.size(); ++machine) {
    out.push_back(cuts.room(machine, own.size()));
    in.push_back(cuts.room(here, counts[static_cast<std::size_t>(machine)]));
    cuts.pack(own, machine, out.back());
  }
  trade(machines, out, in);
  in[static_cast<std::size_t>(here)] = out[static_cast<std::size_t>(here)];

  // Whole lists, of which only the part of this machine is there.
  std::vector<TensorList> parts;
  for (std::size_t machine = 0; machine < in.size(); ++machine) {
    std::vector<TensorList> theirs;
    for (std::size_t i = 0; i < counts[machine]; ++i) theirs.push_back(allocate(layouts));
    cuts.unpack(in[machine], here, theirs);
    for (const TensorList& list : theirs) {
      parts.emplace_back();
      for (std::size_t i = 0; i < list.size(); ++i) {
        const arena::Slice part = cuts.of(i, here);
        parts.back().push_back(list[i].narrow(0, part.begin, part.size()));
      }
    }
  }
  if (parts.empty()) return {};
  const TensorList made = work(parts);
  TensorList result = allocate(layouts);
  for (std::size_t i = 0; i < result.size(); ++i) {
    const arena::Slice part = cuts.of(i, here);
    result[i].narrow(0, part.begin, part.size()).copy_(made[i]);
  }
  const torch::Tensor packed = cuts.room(here, 1);
  cuts.pack({result}, here, packed);
  TensorList results;
  for (int machine = 0; machine < machines.size(); ++machine)
    results.push_back(cuts.room(machine, 1));
  trade(machines, TensorList(results.size(), packed), results);
  for (int machine = 0; machine < machines.size(); ++machine)
    if (machine != here) cuts.unpack(results[static_cast<std::size_t>(machine)], machine, {result});
  return result;
}

}  // namespace lockstep::collective
