#pragma once

#include <memory>

#include "serve/service.h"

namespace lockstep::apps {

/// POST a picture to /api/detect: {"width": .., "height": .., "found": [{"class": .., "score": ..,
/// "box": [left, top, width, height]}, ...]}.
std::unique_ptr<Service> detect_service(const ServeFlags& flags);

}  // namespace lockstep::apps
