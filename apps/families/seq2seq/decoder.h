#pragma once

// A trained seq2seq model, to decode texts with: what `chat` and `translate` do.

#include <lockstep/nn/seq2seq.h>
#include <lockstep/text/tokens.h>

#include <memory>
#include <string>
#include <vector>

namespace lockstep::apps {

struct DecodeFlags {
  std::string path;
  std::string weights = "auto";
  bool newest = false;
  int beam = 0;            ///< 0: as the recipe says
  int max_length = 0;      ///< 0: as the recipe says
  double temperature = 0;  ///< above 0: drawn at random
  int top_k = 0;
  std::int64_t seed = 1;
};

struct DecodedText {
  std::string text;
  double score = 0;
};

class TextDecoder {
 public:
  /// The best checkpoint of a run (or the one at `path`) with averaged weights, if it has some.
  /// Throws ConfigError when it was not trained by the family seq2seq.
  explicit TextDecoder(const DecodeFlags& flags);

  /// For each text what the model makes of it, the best first; `best` of them, if there are so
  /// many. Texts of about the same length are decoded together.
  std::vector<std::vector<DecodedText>> decode(const std::vector<std::string>& texts, int best = 1);

  int& beam() { return search_.width; }
  double& temperature() { return temperature_; }
  const std::string& about() const { return about_; }  ///< "runs/chat/..., averaged weights"

 private:
  std::vector<std::vector<text::Hypothesis>> decode_batch(
      const std::vector<std::vector<std::int32_t>>& sources, int best);

  std::shared_ptr<nn::Seq2Seq> model_;
  std::shared_ptr<const text::Tokenizer> tokens_;
  text::BeamOptions search_;
  double temperature_;
  int top_k_;
  std::uint64_t seed_;
  std::string about_;
};

}  // namespace lockstep::apps
