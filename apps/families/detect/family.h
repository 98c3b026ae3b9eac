#pragma once

// The family `detect`: finds things in pictures.

namespace lockstep::apps {

struct Family;
struct FamilyProgram;

struct DetectFamily {
  static Family recipe();
  static FamilyProgram program();
};

}  // namespace lockstep::apps
