#pragma once

#include <memory>

#include "serve/service.h"

namespace lockstep::apps {

/// POST {"text": ".."} or {"texts": ["..", ..]} to /api/text: {"texts": [[{"text": .., "score":
/// ..}, ..], ..]}, a list for each text with ?best=3 answers at most.
std::unique_ptr<Service> text_service(const ServeFlags& flags);

}  // namespace lockstep::apps
