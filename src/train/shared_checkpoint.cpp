#include <lockstep/checkpoint.h>
#include <lockstep/machines.h>

#include "base/letter.h"
#include "collective/tensor_letter.h"

// A checkpoint on its way from the first machine to the others, which need no file system of it.

namespace lockstep {
namespace {

using base::Letter;
using base::LetterReader;

void put_texts(Letter& letter, const std::map<std::string, std::string>& texts) {
  letter.put(texts.size());
  for (const auto& [name, text] : texts) {
    letter.put(name);
    letter.put(text);
  }
}

std::map<std::string, std::string> get_texts(LetterReader& letter) {
  std::map<std::string, std::string> texts;
  for (auto left = letter.get<std::size_t>(); left > 0; --left) {
    const std::string name = letter.text();
    texts[name] = letter.text();
  }
  return texts;
}

void put_named(Letter& letter, const std::vector<NamedTensor>& tensors) {
  letter.put(tensors.size());
  for (const NamedTensor& tensor : tensors) {
    letter.put(tensor.name);
    collective::put_tensors(letter, {tensor.value});
  }
}

std::vector<NamedTensor> get_named(LetterReader& letter) {
  std::vector<NamedTensor> tensors(letter.get<std::size_t>());
  for (NamedTensor& tensor : tensors) {
    tensor.name = letter.text();
    tensor.value = collective::get_tensors(letter).front();
  }
  return tensors;
}

constexpr std::vector<NamedTensor> State::*kLists[] = {&State::parameters, &State::slots,
                                                       &State::averages,   &State::buffers,
                                                       &State::frozen,     &State::gradients};

void put_state(Letter& letter, const State& state) {
  letter.put(state.steps);
  letter.put(state.updates);
  letter.put(state.updates_of.size());
  for (const auto& [name, updates] : state.updates_of) {
    letter.put(name);
    letter.put(updates);
  }
  letter.put(state.loss_scale);
  letter.put(state.good_steps);
  put_texts(letter, state.changed);
  letter.put(state.held.size());
  for (const std::string& name : state.held) letter.put(name);
  for (const auto list : kLists) put_named(letter, state.*list);
}

State get_state(LetterReader& letter) {
  State state;
  state.steps = letter.get<std::int64_t>();
  state.updates = letter.get<std::int64_t>();
  for (auto left = letter.get<std::size_t>(); left > 0; --left) {
    const std::string name = letter.text();
    state.updates_of[name] = letter.get<std::int64_t>();
  }
  state.loss_scale = letter.get<double>();
  state.good_steps = letter.get<std::int64_t>();
  state.changed = get_texts(letter);
  state.held.resize(letter.get<std::size_t>());
  for (std::string& name : state.held) name = letter.text();
  for (const auto list : kLists) state.*list = get_named(letter);
  return state;
}

Letter letter_of(const FoundCheckpoint& found) {
  Letter letter;
  letter.put(found.path);
  letter.put(to_json(found.checkpoint.manifest));
  put_state(letter, found.checkpoint.state);
  put_texts(letter, found.checkpoint.files);
  return letter;
}

FoundCheckpoint read(LetterReader letter) {
  FoundCheckpoint found;
  found.path = letter.text();
  found.checkpoint.manifest = parse_manifest(found.path, letter.text());
  found.checkpoint.state = get_state(letter);
  found.checkpoint.files = get_texts(letter);
  return found;
}

/// What the first machine passes in, on all of them. Large ones go from machine to machine.
Bytes from_first(Machines& machines, Bytes mine) {
  constexpr std::uint32_t kTag = 3;
  const auto size = mine.size();
  const auto sizes = machines.all_gather(std::as_bytes(std::span(&size, 1)));
  std::vector<std::unique_ptr<Machines::Transfer>> transfers;
  if (machines.rank() == 0) {
    for (int other = 1; other < machines.size(); ++other)
      transfers.push_back(machines.send(other, kTag, mine));
  } else {
    mine.resize(LetterReader(sizes.front()).get<std::size_t>());
    transfers.push_back(machines.receive(0, kTag, mine));
  }
  for (const auto& transfer : transfers) transfer->wait();
  return mine;
}

}  // namespace

std::optional<FoundCheckpoint> from_first(Machines& machines,
                                          const std::optional<FoundCheckpoint>& own) {
  Bytes mine;
  if (machines.rank() == 0 && own) mine = letter_of(*own).bytes();
  mine = from_first(machines, std::move(mine));
  if (mine.empty()) return std::nullopt;
  return read(LetterReader(mine));
}

}  // namespace lockstep
