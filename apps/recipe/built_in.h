#pragma once

// The files recipes/*.toml, embedded at build time: cmake/EmbedRecipes.cmake writes the source.

#include <vector>

namespace lockstep::apps {

struct Embedded {
  const char* name;  ///< "fashion"
  const char* text;
};

/// By name.
std::vector<Embedded> embedded_recipes();

}  // namespace lockstep::apps
