#pragma once

// What the readers of boxes have in common: which boxes are bad, and what becomes of them.

#include <lockstep/vision/box_set.h>

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::vision {

/// Counts what is wrong with a set, or refuses it. The report must outlive it.
class BoxFaults {
 public:
  BoxFaults(OnBadBox on_bad, BoxReport& report) : on_bad_(on_bad), report_(report) {}

  /// `where` is "file:line"; `what` says field and value: "annotations[12].bbox: a width of 0".
  /// `done` is what was done about it: by default what BoxFault says. Throws ConfigError where
  /// faults are refused.
  void add(BoxFault fault, const std::string& where, const std::string& what,
           const char* done = nullptr);

 private:
  const OnBadBox on_bad_;
  BoxReport& report_;
};

/// Where an annotation stands, for messages.
struct BoxPlace {
  std::string_view file;
  std::int64_t line = 0;
  std::string_view field;  ///< "annotations[12].bbox"; may be empty

  std::string where() const;
};

/// Pixels beyond that are no place in a picture; sums and products of such numbers stay finite.
inline constexpr double kMostCoordinate = 1e9;

/// The boxes of one picture so far.
class PictureBoxes {
 public:
  /// Adds a box to the picture, unless it has no area, is there already or is not a box at all:
  /// then that is a fault.
  void add(const LabelledBox& box, const BoxPlace& place, BoxFaults& faults, BoxedPicture& to);

 private:
  using Key = std::array<double, 5>;  // label, left, top, width, height
  std::set<Key> seen_;
};

/// The numbers of classes by name; of equal names, the first.
std::map<std::string, int> class_numbers(const std::vector<std::string>& classes);

/// `number` as short as it can be: "0.5", "12".
std::string number_text(double number);

/// In quotes, valid UTF-8, cut after some characters: for messages.
std::string in_quotes(std::string_view text);

}  // namespace lockstep::vision
