#pragma once

// Input as small decorators:
//
//   namespace input = lockstep::input;
//   const auto batches = input::batch(input::shuffle(images, seed), 128);
//   const auto stream = input::prefetch(batches, {.workers = 2});
//   while (auto batch = stream->next()) ...
//
// A Source (input/source.h) is random access: items by number. A Stream (stream.h) is one item
// after the other, for what has no numbers. Both can be mapped, shuffled, batched and fetched
// ahead, and whatever they are made of, their position is a few integers.

#include <lockstep/input/batch.h>     // IWYU pragma: export
#include <lockstep/input/prefetch.h>  // IWYU pragma: export
#include <lockstep/input/shuffle.h>   // IWYU pragma: export
#include <lockstep/input/source.h>    // IWYU pragma: export
#include <lockstep/input/stream.h>    // IWYU pragma: export
