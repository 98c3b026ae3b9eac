#pragma once

// Input as small decorators:
//
//   namespace input = lockstep::input;
//   const auto batches = input::batch(input::shuffle(images, seed), 128);
//   const auto stream = input::prefetch(batches, {.workers = 2});
//   while (auto batch = stream->next()) ...
//
// A Source (input/source.h) has random access: items by number. A Stream (stream.h) gives one item
// after the other, for data without numbers. Both can be mapped, shuffled, batched and prefetched,
// and their position is always a few integers.

#include <lockstep/input/batch.h>     // IWYU pragma: export
#include <lockstep/input/dataset.h>   // IWYU pragma: export
#include <lockstep/input/prefetch.h>  // IWYU pragma: export
#include <lockstep/input/shuffle.h>   // IWYU pragma: export
#include <lockstep/input/source.h>    // IWYU pragma: export
#include <lockstep/input/stream.h>    // IWYU pragma: export
