#pragma once

#include <memory>

#include "serve/service.h"

namespace lockstep::apps {

/// POST an image to /api/predict: {"classes": [{"class": "cat", "score": 0.98}, ...]}.
std::unique_ptr<Service> predict_service(const ServeFlags& flags);

}  // namespace lockstep::apps
