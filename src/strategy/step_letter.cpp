#include "strategy/step_letter.h"

#include "collective/tensor_letter.h"

namespace lockstep::strategy {
namespace {

void put_report(base::Letter& letter, const TowerReport& report) {
  letter.put(report.device);
  letter.put(report.shards);
  letter.put(report.rows.value_or(-1));
  letter.put(report.loss);
  letter.put(report.weight);
  for (const auto& [name, time] : kStageTimes) letter.put(report.*time);
  letter.put(report.peak_bytes);
}

TowerReport get_report(base::LetterReader& letter) {
  TowerReport report;
  report.device = letter.text();
  report.shards = letter.get<int>();
  report.rows = letter.get<std::int64_t>();
  if (*report.rows < 0) report.rows.reset();
  report.loss = letter.get<double>();
  report.weight = letter.get<double>();
  for (const auto& [name, time] : kStageTimes) report.*time = letter.get<Seconds>();
  report.peak_bytes = letter.get<std::int64_t>();
  return report;
}

}  // namespace

void put_news(base::Letter& letter, const TowerNews& news) {
  put_report(letter, news.report);
  letter.put(news.results.size());
  for (const ShardResults& shard : news.results) {
    letter.put(shard.metrics.size());
    for (const auto& [name, mean] : shard.metrics) {
      letter.put(name);
      letter.put(mean);
    }
    letter.put(shard.outputs.size());
    for (const auto& [name, output] : shard.outputs) {
      letter.put(name);
      letter.put(output.dim);
      collective::put_tensors(letter, {output.rows});
    }
  }
}

TowerNews get_news(base::LetterReader& letter) {
  TowerNews news{.report = get_report(letter), .results = {}};
  news.results.resize(letter.get<std::size_t>());
  for (ShardResults& shard : news.results) {
    for (auto left = letter.get<std::size_t>(); left > 0; --left) {
      const std::string name = letter.text();
      shard.metrics[name] = letter.get<Mean>();
    }
    for (auto left = letter.get<std::size_t>(); left > 0; --left) {
      const std::string name = letter.text();
      const auto dim = letter.get<std::int64_t>();
      shard.outputs[name] = {collective::get_tensors(letter).front(), dim};
    }
  }
  return news;
}

}  // namespace lockstep::strategy
