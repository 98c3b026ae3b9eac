#include "families/seq2seq/service.h"

#include <lockstep/error.h>
#include <lockstep/text/pairs.h>

#include <algorithm>

#include "families/seq2seq/decoder.h"

namespace lockstep::apps {
namespace {

using TextAnswers = std::vector<std::vector<DecodedText>>;

/// The texts of a request, as the training texts were. Throws ConfigError.
std::vector<std::string> texts_of(const std::string& body) {
  constexpr std::size_t kMostTexts = 256;
  const auto json = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  const auto wrong = [] {
    return ConfigError(
        "the request has to be JSON: {\"text\": \"...\"}, or {\"texts\": [\"...\", ...]} with 256 "
        "texts at most.");
  };
  if (!json.is_object()) throw wrong();
  const nlohmann::json list = json.contains("text") ? nlohmann::json::array({json["text"]})
                                                    : json.value("texts", nlohmann::json());
  if (!list.is_array() || list.empty() || list.size() > kMostTexts) throw wrong();
  std::vector<std::string> texts;
  for (const auto& text : list) {
    if (!text.is_string()) throw wrong();
    const auto tidy = text::tidy_text(text.get<std::string>());
    if (!tidy) throw ConfigError("a text of the request is no UTF-8.");
    texts.push_back(*tidy);
  }
  return texts;
}

class TextService : public Service {
 public:
  explicit TextService(const ServeFlags& flags)
      : decoder_({.path = flags.path, .weights = flags.weights, .newest = flags.newest}),
        batcher_([this](const auto& requests) { return decode(requests); }, flags.limits) {}

  std::string name() const override { return "text"; }

  nlohmann::ordered_json about() const override { return {{"about", decoder_.about()}}; }

  nlohmann::ordered_json answer(const std::string& body,
                                const std::map<std::string, std::string>& options) override {
    const TextAnswers found = batcher_.ask({texts_of(body), option_of(options, "best", 1, 1, 32)});
    nlohmann::ordered_json texts = nlohmann::ordered_json::array();
    for (const auto& answers : found) {
      texts.push_back(nlohmann::ordered_json::array());
      for (const DecodedText& one : answers)
        texts.back().push_back({{"text", one.text}, {"score", one.score}});
    }
    return {{"texts", texts}};
  }

 private:
  struct TextRequest {
    std::vector<std::string> texts;
    int best = 1;
  };

  /// All texts of all requests together; those that want as many answers.
  std::vector<TextAnswers> decode(const std::vector<TextRequest>& requests) {
    std::vector<TextAnswers> answers(requests.size());
    std::vector<int> numbers;
    for (const TextRequest& request : requests)
      if (std::ranges::count(numbers, request.best) == 0) numbers.push_back(request.best);
    for (const int best : numbers) {
      std::vector<std::string> texts;
      std::vector<std::size_t> owners;
      for (std::size_t i = 0; i < requests.size(); ++i)
        if (requests[i].best == best) {
          texts.insert(texts.end(), requests[i].texts.begin(), requests[i].texts.end());
          owners.insert(owners.end(), requests[i].texts.size(), i);
        }
      auto decoded = decoder_.decode(texts, best);
      for (std::size_t i = 0; i < texts.size(); ++i)
        answers[owners[i]].push_back(std::move(decoded[i]));
    }
    return answers;
  }

  TextDecoder decoder_;
  Batcher<TextRequest, TextAnswers> batcher_;
};

}  // namespace

std::unique_ptr<Service> text_service(const ServeFlags& flags) {
  return std::make_unique<TextService>(flags);
}

}  // namespace lockstep::apps
