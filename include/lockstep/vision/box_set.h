#pragma once

// Data sets of pictures with boxes: COCO's JSON, VOC's XML and YOLO's text files. A reader takes
// the annotations alone; check_pictures then looks at the pictures themselves. What is wrong is
// counted and told with file and line, or refused.

#include <lockstep/vision/box.h>
#include <lockstep/vision/image_file.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::vision {

/// What can be wrong with an annotation or its picture.
enum class BoxFault {
  no_picture,      ///< an annotation of a picture that the set does not have; left out
  bad_picture,     ///< a picture that is not there or cannot be read; left out
  twice,           ///< a picture, a class, or a box of one class in one place, again; left out
  bad_annotation,  ///< a field is missing or wrong; the box, or the picture, is left out
  unknown_class,   ///< of a class that the set does not name; the box is left out
  no_area,         ///< a box without width or height; left out
  outside,         ///< a box that lies outside of its picture; left out
  beyond,          ///< a box that reaches more than a pixel beyond its picture; cut
  other_size,      ///< a picture of another size than the annotation says; its boxes stay
};
inline constexpr std::size_t kBoxFaultKinds = 9;

/// For people: "boxes without area, left out".
const char* about(BoxFault fault);

/// What was wrong with a set: how often, and examples with file and line.
struct BoxReport {
  std::array<std::int64_t, kBoxFaultKinds> counts = {};
  /// "voc/a.xml:17: object[2]: a box of width 0, left out"; the first three of a kind, at most 8.
  std::vector<std::string> examples = {};

  std::int64_t count(BoxFault fault) const { return counts[static_cast<std::size_t>(fault)]; }
  std::int64_t total() const;
};

enum class OnBadBox {
  skip,    ///< do what BoxFault says, and count it
  refuse,  ///< throw ConfigError with file and line
};

struct BoxedPicture {
  std::string path;     ///< of the picture's file
  std::int64_t id = 0;  ///< COCO's; else its place in the set, from 1
  ImageSize size = {};  ///< upright; as the annotation says, 0 x 0 where it does not, until checked
  std::vector<LabelledBox> boxes = {};
  std::string where = {};  ///< its annotation, for messages: "instances.json:17"
  /// Of each box in that file, for messages of check_pictures, which then forgets them.
  std::vector<std::int64_t> lines = {};
};

struct BoxSet {
  std::vector<std::string> classes;
  /// COCO's category ids, ascending unless `BoxReading::classes` has another order; a class that
  /// the file does not name gets one after its largest. Other formats: from 1.
  std::vector<std::int64_t> class_ids;
  std::vector<BoxedPicture> pictures;  ///< ascending by id; those without boxes too
  BoxReport report = {};

  std::int64_t boxes() const;
};

struct BoxReading {
  OnBadBox on_bad = OnBadBox::skip;
  /// The classes that labels are numbers of; empty: those of the set itself. A set that is
  /// evaluated on is given those of the training, and a class that is not among them is unknown.
  std::vector<std::string> classes = {};
  int workers = 1;  ///< threads that read the sizes of pictures: YOLO's boxes need them
};

/// COCO's JSON: `annotations` is the file, `pictures` the folder that its file names are relative
/// to. Boxes are 0-based [x, y, width, height]. Classes are the categories in the order of their
/// ids, which may have holes. The file is read in one pass and never held as a whole. Throws
/// IoError, CorruptFile for what is not JSON (NaN is not), or ConfigError for JSON that is not
/// COCO's; with the line.
BoxSet read_coco(const std::string& annotations, const std::string& pictures,
                 const BoxReading& how = {});

/// VOC's XML: `folder` holds Annotations/*.xml and JPEGImages/, or pictures and XML files side by
/// side, or annotations/xmls/ and images/ (Oxford's pets). `list` names the split: with it, the
/// items are the lines of ImageSets/Main/<list>.txt (or of annotations/<list>.txt, or of the file
/// at that path), first word; empty: every XML file. The picture of a.xml is its <filename>, or
/// a.jpg, a.jpeg or a.png where that does not exist. An item of the list without XML is a
/// bad_annotation, and so is a file that is not XML. Pixels are 1-based and inclusive. Classes are
/// the names that occur, sorted, unless `how` gives them. Throws ConfigError when there are no
/// annotations, or IoError.
BoxSet read_voc(const std::string& folder, const std::string& list, const BoxReading& how = {});

/// YOLO's text files: `yaml` is data.yaml with path, names and the splits; `split` one of its keys
/// (train, val, test): a folder of pictures, a list of such, or a file with a path a line. The
/// labels of images/a.jpg are in labels/a.txt, a box a line: class, centre x, centre y, width,
/// height, as parts of the picture. A picture without a file has no boxes. Sizes of pictures are
/// read here, because boxes are relative to them. Throws ConfigError for a data.yaml that does not
/// fit, with the line; CorruptFile for one that is not YAML; or IoError.
BoxSet read_yolo(const std::string& yaml, const std::string& split, const BoxReading& how = {});

/// Whether data.yaml has that split.
bool yolo_has_split(const std::string& yaml, const std::string& split);

/// Reads the header of every picture, on `workers` threads: leaves out pictures that cannot be
/// read, sets `size`, and then cuts boxes to their pictures and leaves out those that lie outside.
/// The result is the same for any number of workers. `progress` is called on the calling thread
/// with the pictures done so far, a few times a second and at the end. Throws ConfigError when no
/// picture is left.
void check_pictures(BoxSet& set, OnBadBox on_bad, int workers,
                    const std::function<void(std::int64_t)>& progress = {});

}  // namespace lockstep::vision
