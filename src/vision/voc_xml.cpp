#include "vision/voc_xml.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <pugixml.hpp>

#include "base/utf8.h"
#include "vision/data_files.h"

namespace lockstep::vision {
namespace {

/// One file being read.
class VocParser {
 public:
  VocParser(const std::string& path, std::string_view text, BoxFaults& faults)
      : path_(path), text_(text), faults_(faults) {}

  bool parse(VocAnnotation& to) {
    pugi::xml_document document;
    const pugi::xml_parse_result result = document.load_buffer(text_.data(), text_.size());
    if (!result) {
      fail(line_at(result.offset), std::string("not XML (") + result.description() + ")");
      return false;
    }
    const pugi::xml_node root = document.child("annotation");
    if (!root) {
      fail(line_of(document.first_child()), "no <annotation>, as a file of VOC's kind has");
      return false;
    }
    to.filename = trimmed(root.child_value("filename"));
    to.line = line_of(to.filename.empty() ? root : root.child("filename"));
    to.size = size(root.child("size"));
    std::int64_t number = 0;
    for (const pugi::xml_node object : root.children("object"))
      if (auto found = read_object(object, ++number)) to.objects.push_back(std::move(*found));
    return true;
  }

 private:
  ImageSize size(const pugi::xml_node& node) {
    std::array<int, 2> sides = {};
    for (std::size_t i = 0; i < 2; ++i) {
      const char* name = i == 0 ? "width" : "height";
      const std::string_view text = trimmed(node.child_value(name));
      if (text.empty()) continue;
      const auto side = to_whole(text);
      if (side && *side >= 0 && *side <= kMostPixels)
        sides[i] = static_cast<int>(*side);
      else
        faults_.add(
            BoxFault::other_size, where(line_of(node.child(name))),
            std::string("size/") + name + ": " + in_quotes(text) + " is not the size of a picture");
    }
    if (sides[0] == 0 || sides[1] == 0) return {};
    return {sides[0], sides[1]};
  }

  std::optional<VocObject> read_object(const pugi::xml_node& node, std::int64_t number) {
    VocObject object;
    object.line = line_of(node);
    object.field = "object[" + std::to_string(number) + "]";
    object.name = trimmed(node.child_value("name"));
    if (object.name.empty() || base::valid_utf8(object.name) != object.name) {
      fail(object.line, object.field + "/name: " + found_text(node.child("name")) +
                            ", expected the name of a class");
      return std::nullopt;
    }
    if (!set_difficult(node.child("difficult"), object) || !set_box(node.child("bndbox"), object))
      return std::nullopt;
    return object;
  }

  bool set_difficult(const pugi::xml_node& node, VocObject& object) {
    const std::string_view text = trimmed(node.child_value());
    const auto value = text.empty() ? std::int64_t{0} : to_whole(text);
    object.difficult = value == 1;
    if (value == 0 || value == 1) return true;
    fail(line_of(node), object.field + "/difficult: " + in_quotes(text) + ", expected 0 or 1");
    return false;
  }

  /// From 1-based pixels, the last one included, to 0-based edges.
  bool set_box(const pugi::xml_node& node, VocObject& object) {
    std::array<double, 4> edges = {};
    constexpr std::array<const char*, 4> kEdges = {"xmin", "ymin", "xmax", "ymax"};
    for (std::size_t i = 0; i < edges.size(); ++i) {
      const pugi::xml_node edge = node.child(kEdges[i]);
      const auto value = to_number(edge.child_value());
      if (!value || !std::isfinite(*value)) {
        fail(edge ? line_of(edge) : object.line, object.field + "/bndbox/" + kEdges[i] + ": " +
                                                     found_text(edge) + ", expected a number");
        return false;
      }
      edges[i] = *value;
    }
    object.box = {edges[0] - 1, edges[1] - 1, edges[2] - (edges[0] - 1), edges[3] - (edges[1] - 1)};
    return true;
  }

  static std::string found_text(const pugi::xml_node& node) {
    return node ? in_quotes(trimmed(node.child_value())) : "missing";
  }

  void fail(std::int64_t line, const std::string& what) {
    faults_.add(BoxFault::bad_annotation, where(line), what);
  }

  std::string where(std::int64_t line) const { return path_ + ":" + std::to_string(line); }

  /// Exact for UTF-8, as nearly all files are: pugixml counts in what it converted.
  std::int64_t line_of(const pugi::xml_node& node) { return line_at(node.offset_debug()); }
  std::int64_t line_at(std::ptrdiff_t offset) {
    const auto wanted = static_cast<std::size_t>(std::max<std::ptrdiff_t>(offset, 0));
    const std::size_t end = std::min(wanted, text_.size());
    if (end < counted_) counted_ = 0, line_ = 1;
    const std::string_view between = text_.substr(counted_, end - counted_);
    line_ += std::count(between.begin(), between.end(), '\n');
    counted_ = end;
    return line_;
  }

  const std::string& path_;
  const std::string_view text_;
  BoxFaults& faults_;
  std::size_t counted_ = 0;  ///< the line of the byte there is line_
  std::int64_t line_ = 1;
};

}  // namespace

bool parse_voc_xml(const std::string& path, std::string_view text, BoxFaults& faults,
                   VocAnnotation& to) {
  return VocParser(path, text, faults).parse(to);
}

}  // namespace lockstep::vision
