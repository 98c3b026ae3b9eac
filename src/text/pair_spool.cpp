#include "text/pair_spool.h"

#include <lockstep/error.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>

namespace lockstep::text {

PairSpool::PairSpool(const std::string& folder)
    : path_(folder + "/pairs-XXXXXX"), file_(nullptr, std::fclose) {
  const int number = ::mkstemp(path_.data());
  if (number < 0) throw IoError(path_, "make", errno);
  ::unlink(path_.c_str());
  file_.reset(::fdopen(number, "w+b"));
  if (file_) return;
  const int problem = errno;
  ::close(number);
  throw IoError(path_, "open", problem);
}

void PairSpool::add(const TextPair& pair, Part part) {
  const std::array<std::uint64_t, 3> head = {part == Part::test ? 1U : 0U, pair.source.size(),
                                             pair.target.size()};
  write(head.data(), sizeof head);
  write(pair.source.data(), pair.source.size());
  write(pair.target.data(), pair.target.size());
  ++pairs_;
}

void PairSpool::for_each(const std::function<void(TextPair, Part)>& action) {
  if (std::fflush(file_.get()) != 0) throw IoError(path_, "write", errno);
  std::rewind(file_.get());
  for (std::int64_t i = 0; i < pairs_; ++i) {
    std::array<std::uint64_t, 3> head;
    read(head.data(), sizeof head);
    TextPair pair{std::string(head[1], '\0'), std::string(head[2], '\0')};
    read(pair.source.data(), pair.source.size());
    read(pair.target.data(), pair.target.size());
    action(std::move(pair), head[0] == 1 ? Part::test : Part::train);
  }
}

void PairSpool::write(const void* data, std::size_t bytes) {
  if (std::fwrite(data, 1, bytes, file_.get()) != bytes) throw IoError(path_, "write", errno);
}

void PairSpool::read(void* data, std::size_t bytes) {
  if (std::fread(data, 1, bytes, file_.get()) != bytes) throw IoError(path_, "read", errno);
}

}  // namespace lockstep::text
