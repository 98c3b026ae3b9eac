#include "families/classify/per_class.h"

#include <algorithm>
#include <numeric>

#include "table.h"
#include "terminal.h"

namespace lockstep::apps {
namespace {

/// "0.913", or "-" when there is nothing to divide by.
std::string share(std::int64_t part, std::int64_t all) {
  return all == 0 ? "-" : format("%.3f", static_cast<double>(part) / static_cast<double>(all));
}

}  // namespace

std::string per_class(const vision::Classification& result,
                      const std::vector<std::string>& classes) {
  const torch::Tensor& confusion = result.confusion;
  const torch::Tensor of_label = confusion.sum(1), taken_for = confusion.sum(0);
  const auto at = [](const torch::Tensor& counts, std::int64_t i) {
    return counts[i].item<std::int64_t>();
  };
  const auto right = [&](std::int64_t i) { return confusion[i][i].item<std::int64_t>(); };
  std::vector<std::int64_t> order(classes.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::ranges::stable_sort(order, {}, [&](std::int64_t i) {
    const std::int64_t all = at(of_label, i);
    return all == 0 ? 2.0 : static_cast<double>(right(i)) / static_cast<double>(all);
  });
  Rows rows = {{"class", "images", "recall", "precision"}};
  for (const std::int64_t i : order)
    rows.push_back({classes[static_cast<std::size_t>(i)], std::to_string(at(of_label, i)),
                    share(right(i), at(of_label, i)), share(right(i), at(taken_for, i))});
  std::string text = table(rows);
  text.pop_back();  // the end of the last line
  return text;
}

}  // namespace lockstep::apps
