#pragma once

// The family `seq2seq`: texts into texts.

namespace lockstep::apps {

struct Family;
struct FamilyProgram;

struct Seq2SeqFamily {
  static Family recipe();
  static FamilyProgram program();
};

}  // namespace lockstep::apps
