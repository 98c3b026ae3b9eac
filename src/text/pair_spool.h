#pragma once

// Pairs of texts that wait in a file without a name until their tokens are known: written one after
// the other, then read once in the same order.

#include <lockstep/text/pairs.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>

namespace lockstep::text {

enum class Part { train, test };

/// Throws IoError.
class PairSpool {
 public:
  explicit PairSpool(const std::string& folder);

  void add(const TextPair& pair, Part part);
  void for_each(const std::function<void(TextPair, Part)>& action);  ///< Once, after the last add.

 private:
  void write(const void* data, std::size_t bytes);
  void read(void* data, std::size_t bytes);

  std::string path_;  // for messages
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  std::int64_t pairs_ = 0;
};

}  // namespace lockstep::text
