#pragma once

// Pairs of token sequences in a file that is mapped into memory: millions of them, one copy for all
// towers and for all processes.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace lockstep::text {

struct TokenPair {
  std::span<const std::int32_t> source;
  std::span<const std::int32_t> target;
};

/// Writes pairs one after the other, to a new file beside `path`; the file appears, whole, with
/// finish(). Without it nothing does. Holds 8 bytes a pair in memory. Throws IoError; after one
/// only the destructor may follow.
class PairFileWriter {
 public:
  /// `key` says what the pairs were made of: see PairFile::key.
  PairFileWriter(std::string path, std::string key);
  ~PairFileWriter();
  PairFileWriter(const PairFileWriter&) = delete;
  PairFileWriter& operator=(const PairFileWriter&) = delete;

  void add(
      const TokenPair& pair);  ///< The source has at least one token; the target may have none.
  void finish();               ///< Last, and once.

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Copies share the mapping. May be used from several threads at once. As with every mapping, a
/// file that is cut short while it is in use ends the process; a new file under the same name does
/// no harm.
class PairFile {
 public:
  /// Throws IoError, or CorruptFile when it is not a whole file of pairs. Reads where the pairs lie
  /// (16 bytes a pair), not their tokens.
  explicit PairFile(const std::string& path);

  std::int64_t size() const;
  TokenPair operator[](std::int64_t index) const;  ///< Valid as long as any copy of the PairFile.
  const std::string& key() const;

 private:
  class Mapping;
  std::shared_ptr<const Mapping> mapping_;
};

}  // namespace lockstep::text
