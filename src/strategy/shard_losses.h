#pragma once

// What loss functions return for a tower's shards, one after the other.

#include <lockstep/loss.h>
#include <lockstep/method.h>

#include "strategy/tower.h"

namespace lockstep::strategy {

/// Of a shard without rows.
void keep_nothing(Tower& tower);

/// Keeps what a loss function returned, but for its graph. False when the loss is known to be bad,
/// which spares the rest.
bool keep(Tower& tower, Loss& loss, const Method& method);

/// Reads from the device the losses that were not read before. Throws NonFiniteError, unless such
/// steps are skipped.
void read_losses(Tower& tower, const Method& method);

/// When all losses are read: reads metrics and outputs, and brings the terms of sums over towers.
void bring_losses(Tower& tower);

/// What the gradient of the tower's shard `i` is divided by before it is clipped; 0: nothing to
/// clip.
double clip_weight(const Tower& tower, std::size_t i);

}  // namespace lockstep::strategy
