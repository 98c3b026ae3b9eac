#pragma once

// What is checked and made before the towers.

#include <lockstep/mirrored.h>

#include "device/tower_pool.h"
#include "strategy/replica.h"

namespace lockstep::strategy {

using Factory = std::function<std::shared_ptr<torch::nn::Module>(Place place)>;

/// The options, and their devices ready for use. Throws ConfigError.
MirroredOptions validated(MirroredOptions options);

/// Throws ConfigError for several machines: `strategy` trains on one.
void refuse_machines(const Where& where, const std::string& strategy);

/// Constructs the model once a tower, on the tower's device. With a home, see Replicas, that is
/// made first, at the place after the towers'.
Replicas make_replicas(const MirroredOptions& options, device::TowerPool& pool,
                       const Factory& replica, detail::Making making, bool home);

}  // namespace lockstep::strategy
