#pragma once

// Pairs of token sequences in a file that is mapped into memory: millions of them, one copy for all
// towers and for all processes.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace lockstep {

struct TokenPair {
  std::span<const std::int32_t> source;
  std::span<const std::int32_t> target;
};

/// Writes pairs one after the other; the file appears, whole, with finish(). Throws IoError.
class PairFileWriter {
 public:
  /// `key` says what the pairs were made of: see PairFile::key.
  PairFileWriter(std::string path, std::string key);
  ~PairFileWriter();
  void add(const TokenPair& pair);
  void finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Copies share the mapping. May be used from several threads at once.
class PairFile {
 public:
  /// Throws IoError, or CorruptFile when it is not a whole file of pairs.
  explicit PairFile(const std::string& path);

  std::int64_t size() const;
  TokenPair operator[](std::int64_t index) const;
  const std::string& key() const;

 private:
  class Mapping;
  std::shared_ptr<const Mapping> mapping_;
};

}  // namespace lockstep
