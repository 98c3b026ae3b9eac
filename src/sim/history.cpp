#include "sim/history.h"

namespace lockstep::sim {
namespace {

bool is_over(const Access& access, const VectorClock& known) {
  return known[access.stream] >= access.count;
}

}  // namespace

std::optional<Conflict> History::conflict(std::size_t begin, std::size_t end, bool write,
                                          const VectorClock& known) const {
  auto cell = std::partition_point(cells_.begin(), cells_.end(),
                                   [&](const Cell& c) { return c.end <= begin; });
  for (; cell != cells_.end() && cell->begin < end; ++cell) {
    if (cell->write && !is_over(*cell->write, known)) return Conflict{*cell->write, true};
    if (!write) continue;
    for (const Access& read : cell->reads)
      if (!is_over(read, known)) return Conflict{read, false};
  }
  return std::nullopt;
}

void History::enter(std::size_t begin, std::size_t end, bool write, const Access& access,
                    const VectorClock& known) {
  if (begin >= end) return;
  split_at(begin);
  split_at(end);
  if (write)
    enter_write(begin, end, access);
  else
    enter_read(begin, end, access, known);
}

void History::split_at(std::size_t position) {
  auto cell = std::partition_point(cells_.begin(), cells_.end(),
                                   [&](const Cell& c) { return c.end <= position; });
  if (cell == cells_.end() || cell->begin >= position) return;
  Cell left = *cell;
  left.end = position;
  cell->begin = position;
  cells_.insert(cell, std::move(left));
}

void History::enter_write(std::size_t begin, std::size_t end, const Access& access) {
  const auto first = std::partition_point(cells_.begin(), cells_.end(),
                                          [&](const Cell& c) { return c.end <= begin; });
  auto last = first;
  while (last != cells_.end() && last->begin < end) ++last;
  Cell whole{begin, end, access, {}};
  if (first == last) {
    cells_.insert(first, std::move(whole));
    return;
  }
  *first = std::move(whole);
  cells_.erase(first + 1, last);
}

void History::enter_read(std::size_t begin, std::size_t end, const Access& access,
                         const VectorClock& known) {
  auto index =
      static_cast<std::size_t>(std::partition_point(cells_.begin(), cells_.end(),
                                                    [&](const Cell& c) { return c.end <= begin; }) -
                               cells_.begin());
  for (std::size_t at = begin; at < end; ++index) {
    if (index == cells_.size() || cells_[index].begin > at) {  // bytes never touched
      const std::size_t until = index == cells_.size() ? end : std::min(end, cells_[index].begin);
      cells_.insert(cells_.begin() + static_cast<std::ptrdiff_t>(index), Cell{at, until, {}, {}});
    }
    Cell& cell = cells_[index];
    // A read that is over before this one is implied by it: who waits for this waits for both.
    std::erase_if(cell.reads, [&](const Access& read) { return is_over(read, known); });
    cell.reads.push_back(access);
    at = cell.end;
  }
}

void History::forget(std::size_t stream) {
  for (Cell& cell : cells_) {
    if (cell.write && cell.write->stream == stream) cell.write.reset();
    std::erase_if(cell.reads, [&](const Access& read) { return read.stream == stream; });
  }
}

}  // namespace lockstep::sim
