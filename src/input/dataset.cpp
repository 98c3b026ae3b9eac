#include <ATen/CPUGeneratorImpl.h>
#include <lockstep/input/dataset.h>

#include "device/random_stream.h"

namespace lockstep::input {

void with_random_stream(std::uint64_t seed, std::int64_t epoch, std::int64_t index,
                        const std::function<void()>& read) {
  const device::RandomScope scope(
      at::make_generator<at::CPUGeneratorImpl>(device::stream_seed(seed, epoch, index)));
  read();
}

std::int64_t checked_size(std::optional<std::size_t> size) {
  if (!size)
    throw ConfigError(
        "input::from: the dataset does not know its size, so it has no epochs; write a "
        "lockstep::Stream for it, see lockstep/stream.h");
  return static_cast<std::int64_t>(*size);
}

}  // namespace lockstep::input
