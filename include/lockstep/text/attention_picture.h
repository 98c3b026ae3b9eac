#pragma once

// What a sequence-to-sequence model looked at, as a picture.

#include <lockstep/image.h>
#include <torch/torch.h>

#include <string>
#include <vector>

namespace lockstep::text {

/// A row for each piece of the target, a column for each piece of the source: the darker, the more
/// attention, `attention` [target, source] from 0 to 1. Long pieces are cut; SentencePiece's mark
/// of a word's beginning shows as "_", and all else that is not ASCII as a frame. Throws
/// ConfigError when the sizes differ or there is nothing to show.
Image attention_picture(const torch::Tensor& attention, const std::vector<std::string>& source,
                        const std::vector<std::string>& target);

}  // namespace lockstep::text
