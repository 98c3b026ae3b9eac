#pragma once

// The family `classify`: images into classes.

namespace lockstep::apps {

struct Family;
struct FamilyProgram;

struct ClassifyFamily {
  static Family recipe();
  static FamilyProgram program();
};

}  // namespace lockstep::apps
