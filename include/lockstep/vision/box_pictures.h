#pragma once

// Pictures of boxes, curves and counts, for people. All pictures are RGB.

#include <lockstep/image.h>
#include <lockstep/vision/average_precision.h>
#include <lockstep/vision/box.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::vision {

/// A box to draw: a frame in the colour of its class, with a text at one of its edges.
struct DrawnBox {
  Box box = {};
  int label = 0;
  std::string text = {};  ///< empty: none
};

/// Draws boxes on a picture, in place; the first on top of the others. Frames and letters grow with
/// the picture. A box is cut to the picture; one outside of it, without area or with a side that is
/// not a number is not drawn.
void draw_boxes(Image& image, const std::vector<DrawnBox>& boxes);

/// "cat 0.87" for each detection of at least `least_score`. A label without a name is shown as a
/// number.
std::vector<DrawnBox> drawn(const std::vector<Detection>& found,
                            const std::vector<std::string>& classes, double least_score);
/// "cat" for each labelled box, "cat, crowd" for a crowd, "cat, difficult" for a difficult one.
std::vector<DrawnBox> drawn(const std::vector<LabelledBox>& truth,
                            const std::vector<std::string>& classes);

/// Pictures in rows of `columns`, each fitted into a cell of cell x cell pixels, on white, with
/// gaps. `titles` are written above the columns, if there are any. Boxes are best drawn on pictures
/// that fit a cell already, so that their text stays sharp.
Image mosaic(const std::vector<Image>& pictures, int columns, int cell = 300,
             const std::vector<std::string>& titles = {});

/// Precision over recall at an overlap of 0.5: the best precision at that recall or a higher one. A
/// curve a class, for at most the twelve with most boxes, a black one for the mean of several,
/// and a legend with AP50. Without names the classes are numbered. Throws ConfigError when there is
/// not one name a class.
Image precision_recall_picture(const AveragePrecision& result,
                               const std::vector<std::string>& classes);

/// The counts of detection_confusion, in percent of each row: right in blue, wrong in red. Throws
/// ConfigError when there is not one name a class.
Image detection_confusion_picture(const std::vector<std::vector<std::int64_t>>& counts,
                                  const std::vector<std::string>& classes,
                                  const std::string& title);

}  // namespace lockstep::vision
