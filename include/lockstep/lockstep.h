#pragma once

// What a training needs: Mirrored, the trainer, input, checkpoints, TensorBoard. Start with
// mirrored.h, then trainer.h. Not included: lockstep/text, lockstep/vision, lockstep/nn, events.h,
// gpu.h and sim.h.

#include <lockstep/async.h>           // IWYU pragma: export
#include <lockstep/batch.h>           // IWYU pragma: export
#include <lockstep/batch_device.h>    // IWYU pragma: export
#include <lockstep/checkpoint.h>      // IWYU pragma: export
#include <lockstep/device.h>          // IWYU pragma: export
#include <lockstep/error.h>           // IWYU pragma: export
#include <lockstep/exchange.h>        // IWYU pragma: export
#include <lockstep/goal.h>            // IWYU pragma: export
#include <lockstep/image.h>           // IWYU pragma: export
#include <lockstep/input.h>           // IWYU pragma: export
#include <lockstep/input_range.h>     // IWYU pragma: export
#include <lockstep/job.h>             // IWYU pragma: export
#include <lockstep/loss.h>            // IWYU pragma: export
#include <lockstep/machines.h>        // IWYU pragma: export
#include <lockstep/manifest.h>        // IWYU pragma: export
#include <lockstep/method.h>          // IWYU pragma: export
#include <lockstep/metrics.h>         // IWYU pragma: export
#include <lockstep/mirrored.h>        // IWYU pragma: export
#include <lockstep/model_strategy.h>  // IWYU pragma: export
#include <lockstep/observer.h>        // IWYU pragma: export
#include <lockstep/optimizer.h>       // IWYU pragma: export
#include <lockstep/pipeline.h>        // IWYU pragma: export
#include <lockstep/placement.h>       // IWYU pragma: export
#include <lockstep/precision.h>       // IWYU pragma: export
#include <lockstep/progress.h>        // IWYU pragma: export
#include <lockstep/random.h>          // IWYU pragma: export
#include <lockstep/report.h>          // IWYU pragma: export
#include <lockstep/retention.h>       // IWYU pragma: export
#include <lockstep/schedule.h>        // IWYU pragma: export
#include <lockstep/share.h>           // IWYU pragma: export
#include <lockstep/state.h>           // IWYU pragma: export
#include <lockstep/strategy.h>        // IWYU pragma: export
#include <lockstep/stream.h>          // IWYU pragma: export
#include <lockstep/tensorboard.h>     // IWYU pragma: export
#include <lockstep/trace.h>           // IWYU pragma: export
#include <lockstep/trainer.h>         // IWYU pragma: export
#include <lockstep/travel.h>          // IWYU pragma: export
#include <lockstep/verify.h>          // IWYU pragma: export
#include <lockstep/where.h>           // IWYU pragma: export
