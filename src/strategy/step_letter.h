#pragma once

// What a step on the towers of one machine came to, on its way to the others.

#include <string>
#include <vector>

#include "base/letter.h"
#include "strategy/results.h"
#include "strategy/tower.h"

namespace lockstep::strategy {

/// Of one tower.
struct TowerNews {
  TowerReport report;
  std::vector<ShardResults> results;  ///< by shard
};

void put_news(base::Letter& letter, const TowerNews& news);
TowerNews get_news(base::LetterReader& letter);

}  // namespace lockstep::strategy
