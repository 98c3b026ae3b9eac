#include <lockstep/error.h>
#include <lockstep/vision/classify.h>

#include "vision/class_names.h"
#include "vision/confusion_drawing.h"

namespace lockstep::vision {

Image confusion_picture(const Classification& result, const std::vector<std::string>& classes) {
  check(result.confusion.defined(), "a confusion picture needs a result of at least one batch");
  const torch::Tensor confusion = result.confusion.to(torch::kInt64).contiguous();
  const auto* count = confusion.const_data_ptr<std::int64_t>();
  std::vector<std::vector<std::int64_t>> counts;
  for (std::int64_t i = 0; i < confusion.size(0); ++i, count += confusion.size(1))
    counts.emplace_back(count, count + confusion.size(1));
  const Mean accuracy = result.metrics.at("accuracy");
  return draw_confusion(counts, names_of_classes(classes, counts.size(), "a confusion matrix"),
                        {.title = "accuracy " + formatted("%.2f", 100 * accuracy.value()) +
                                  " % of " + formatted("%.0f", accuracy.weight) + " rows",
                         .legend = "in percent of the label's rows",
                         .rows = "label",
                         .columns = "prediction"});
}

}  // namespace lockstep::vision
