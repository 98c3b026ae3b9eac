#include <lockstep/vision/average_precision.h>

#include <algorithm>

#include "vision/class_names.h"

namespace lockstep::vision {
namespace {

using TableRow = std::vector<std::string>;

/// In letters of UTF-8.
std::size_t letters_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) != 0x80U; }));
}

/// Markdown with aligned columns; the first row is the head. The first `left` columns are aligned
/// to the left, the others to the right.
std::string markdown_table(const std::vector<TableRow>& rows, std::size_t left) {
  std::vector<std::size_t> widths(rows.front().size(), 3);
  for (const TableRow& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], letters_of(row[i]));
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const std::string spaces(widths[i] - letters_of(rows[r][i]), ' ');
      text += "| " + (i < left ? rows[r][i] + spaces : spaces + rows[r][i]) + ' ';
    }
    text += "|\n";
    if (r > 0) continue;
    for (std::size_t i = 0; i < widths.size(); ++i)
      text += "| " + std::string(widths[i] - 1, '-') + (i < left ? "- " : ": ");
    text += "|\n";
  }
  return text;
}

std::string rate_text(double value) { return value < 0 ? "-" : formatted("%.3f", value); }

/// What would end a cell of the table is written so that it does not.
std::string cell_text(const std::string& name) {
  std::string text;
  for (const char letter : name) {
    if (letter == '|') text += '\\';
    text += static_cast<unsigned char>(letter) < ' ' ? ' ' : letter;
  }
  return text;
}

/// Counts are summed, precision and recall are means over the classes that have boxes.
TableRow row_of_all(const AveragePrecision& result) {
  double boxes = 0, classes = 0, precision = 0, recall = 0;
  for (const ClassPrecision& one : result.classes) {
    boxes += static_cast<double>(one.boxes);
    if (one.boxes == 0) continue;
    ++classes;
    precision += one.precision;
    recall += one.recall;
  }
  const auto mean = [&](double sum) { return rate_text(classes == 0 ? -1 : sum / classes); };
  return {"all",        std::to_string(result.pictures), formatted("%.0f", boxes), mean(precision),
          mean(recall), rate_text(result.coco[1]),       rate_text(result.coco[0])};
}

TableRow row_of_class(const ClassPrecision& one, const std::string& name) {
  const bool known = one.boxes > 0;
  return {cell_text(name),
          std::to_string(one.pictures),
          std::to_string(one.boxes),
          rate_text(known ? one.precision : -1),
          rate_text(known ? one.recall : -1),
          rate_text(one.ap50),
          rate_text(one.ap)};
}

std::string numbers_table(const AveragePrecision& result) {
  constexpr const char* kOverlaps[] = {"0.50:0.95", "0.50", "0.75"};
  constexpr const char* kAreas[] = {"small", "medium", "large"};
  std::vector<TableRow> rows = {{"number", "overlap", "area", "detections", "value"}};
  for (std::size_t i = 0; i < result.coco.size(); ++i) {
    const std::size_t three = i / 3, place = i % 3;  // AP; AP by area; AR by detections; by area
    rows.push_back({kCocoNumbers[i], three == 0 ? kOverlaps[place] : kOverlaps[0],
                    three % 2 == 1 ? kAreas[place] : "all",
                    three == 2 && place < 2 ? (place == 0 ? "1" : "10") : "100",
                    rate_text(result.coco[i])});
  }
  rows.push_back({"VOC 2007", "0.50", "all", "all", rate_text(result.voc2007)});
  rows.push_back({"VOC 2010", "0.50", "all", "all", rate_text(result.voc2010)});
  return markdown_table(rows, 3);
}

}  // namespace

std::string precision_table(const AveragePrecision& result,
                            const std::vector<std::string>& classes) {
  const std::vector<std::string> names =
      names_of_classes(classes, result.classes.size(), "a result");
  std::vector<TableRow> rows = {{"class", "pictures", "boxes", "P", "R", "AP50", "AP"},
                                row_of_all(result)};
  for (std::size_t i = 0; i < names.size(); ++i)
    rows.push_back(row_of_class(result.classes[i], names[i]));
  return markdown_table(rows, 1) + '\n' + numbers_table(result);
}

}  // namespace lockstep::vision
