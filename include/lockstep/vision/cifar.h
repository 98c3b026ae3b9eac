#pragma once

// CIFAR-10, as its authors publish it in the "binary version": data_batch_1.bin to data_batch_5.bin
// and test_batch.bin, each of 10000 rows of a label byte and 32x32 red, green and blue bytes.

#include <lockstep/vision/image_set.h>

#include <cstdint>
#include <string>

namespace lockstep::vision {

/// Throws ConfigError when there is no such folder, IoError, or CorruptFile for a file of another
/// length or with another label. `rows` is what each file must have: less for a set of your own.
ImageSet cifar10(Subset subset, const std::string& folder, const ImageSetOptions& options = {},
                 std::int64_t rows = 10000);

/// Of the training images.
Normalisation cifar10_normalisation();

}  // namespace lockstep::vision
