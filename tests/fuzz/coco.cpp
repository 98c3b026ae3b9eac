// Any bytes as COCO's JSON: a sound set, CorruptFile inside the file, or ConfigError. What is read
// without a fault is not refused either.

#include <lockstep/error.h>

#include "check_boxes.h"
#include "temporary_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::vision;
  const TemporaryFile file(data, size);
  for (const BoxReading& how : {BoxReading{}, BoxReading{.classes = {"cat", "dog"}}}) {
    BoxSet set;
    try {
      set = read_coco(file.path(), "pictures", how);
    } catch (const lockstep::CorruptFile& error) {
      require(error.path == file.path() && error.offset <= size);
      return 0;
    } catch (const lockstep::ConfigError&) {
      continue;
    }
    check_boxes(set);
    BoxReading strict = how;
    strict.on_bad = OnBadBox::refuse;
    try {
      read_coco(file.path(), "pictures", strict);
      require(set.report.total() == 0);
    } catch (const lockstep::ConfigError&) {
      require(set.report.total() > 0);
    }
  }
  return 0;
}
