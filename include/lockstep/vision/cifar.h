#pragma once

// CIFAR-10, as its authors publish it in the "binary version": data_batch_1.bin to data_batch_5.bin
// and test_batch.bin, each of 10000 rows of a label byte and 32x32 red, green and blue bytes. A set
// of your own may have fewer files, and files of another length.

#include <lockstep/vision/image_set.h>

#include <cstdint>
#include <string>

namespace lockstep::vision {

/// Training files are read from data_batch_1.bin on, as far as they are numbered without a gap.
/// Throws ConfigError when there is no such folder, or a gap; IoError, or CorruptFile for a file of
/// another length or with another label. `rows` is what each file must have; 0: any whole number.
ImageSet cifar10(Subset subset, const std::string& folder, const ImageSetOptions& options = {},
                 std::int64_t rows = 0);

/// Of the training images.
Normalisation cifar10_normalisation();

}  // namespace lockstep::vision
