#pragma once

#include <lockstep/events.h>

#include <vector>

namespace torch::nn {
class Module;
}

namespace lockstep::train {

/// The modules of a model that have no modules in them, one node each, grouped as they are nested.
/// There are no arrows between them: what a forward pass does with them, LibTorch does not tell.
std::vector<events::GraphNode> module_graph(const torch::nn::Module& model);

}  // namespace lockstep::train
