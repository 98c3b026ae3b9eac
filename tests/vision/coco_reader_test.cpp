#include <algorithm>

#include "box_files.h"

namespace coco_reader_test {

using namespace lockstep;
using namespace lockstep::vision;
using tests::expect_error;
using tests::write_text;

const std::string kTwoImages =
    R"("images": [{"id": 7, "file_name": "b.jpg", "width": 60, "height": 40},
               {"id": 3, "file_name": "sub/a.jpg", "width": 80, "height": 50}])";
const std::string kTwoCategories =
    R"("categories": [{"id": 90, "name": "dog"}, {"id": 17, "name": "cat"}])";

class CocoReader : public testing::Test {
 protected:
  BoxSet read(const std::string& text, const BoxReading& how = {}) {
    return read_coco(write_text(folder_, "set.json", text), "pictures", how);
  }

  /// With the usual images and categories; an annotation a line, the first one in line 4.
  BoxSet read_boxes(const std::vector<std::string>& boxes, const BoxReading& how = {}) {
    std::string text = "{" + kTwoImages + ",\n\"annotations\": [";
    for (std::size_t i = 0; i < boxes.size(); ++i) text += (i == 0 ? "\n" : ",\n") + boxes[i];
    return read(text + "],\n" + kTwoCategories + "}", how);
  }

  /// The annotation is the second one, in line 5.
  void expect_fault(const std::string& box, BoxFault fault, const std::string& what) {
    const auto read_it = [&](OnBadBox on_bad) {
      const BoxSet set = read_boxes({good(1, 2), box, good(3, 4)}, {.on_bad = on_bad});
      EXPECT_EQ(set.boxes(), 2) << what;
      EXPECT_EQ(set.pictures.size(), 2U) << what;
      return set;
    };
    tests::expect_fault(read_it, fault, {"set.json:5: annotations[1]", what});
  }

  static std::string good(int left, int top) {
    return R"({"image_id": 7, "category_id": 90, "bbox": [)" + std::to_string(left) + ", " +
           std::to_string(top) + ", 10, 5.5], \"area\": 20.25, \"iscrowd\": 0}";
  }

  tests::Folder folder_;
};

TEST_F(CocoReader, ReadsPicturesInTheOrderOfIdsAndLabelsInTheOrderOfCategoryIds) {
  const BoxSet set = read_boxes({good(1, 2)});
  EXPECT_EQ(set.classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(set.class_ids, (std::vector<std::int64_t>{17, 90}));
  ASSERT_EQ(set.pictures.size(), 2U);
  EXPECT_EQ(set.pictures[0].id, 3);
  EXPECT_EQ(set.pictures[0].path, "pictures/sub/a.jpg");
  EXPECT_EQ(set.pictures[0].size.width, 80);
  EXPECT_TRUE(set.pictures[0].boxes.empty());
  EXPECT_EQ(set.pictures[0].where, folder_.path("set.json") + ":2");
  ASSERT_EQ(set.pictures[1].boxes.size(), 1U);
  const LabelledBox& box = set.pictures[1].boxes[0];
  EXPECT_EQ(box.box, (Box{1, 2, 10, 5.5}));
  EXPECT_EQ(box.label, 1);
  EXPECT_EQ(box.area, 20.25);
  EXPECT_FALSE(box.crowd);
  EXPECT_EQ(set.pictures[1].lines, (std::vector<std::int64_t>{4}));
  EXPECT_EQ(set.report.total(), 0);
}

TEST_F(CocoReader, TheOrderOfTheListsDoesNotMatter) {
  const std::string boxes = "\"annotations\": [" + good(1, 2) + "]";
  const std::string unused = R"("info": {"a": [1, {"images": [2]}]}, "licenses": [[{"id": 5}]])";
  for (const std::vector<std::string>& order :
       {std::vector{kTwoImages, boxes, kTwoCategories, unused},
        {boxes, unused, kTwoCategories, kTwoImages},
        {unused, kTwoCategories, kTwoImages, boxes}}) {
    std::string text;
    for (const std::string& part : order) text += (text.empty() ? "{" : ",\n") + part;
    const BoxSet set = read(text + "}");
    EXPECT_EQ(set.report.total(), 0) << text;
    ASSERT_EQ(set.boxes(), 1) << text;
    EXPECT_EQ(set.pictures[1].boxes[0].label, 1) << text;
  }
}

TEST_F(CocoReader, CrowdAndAreaHaveDefaults) {
  const BoxSet set = read_boxes(
      {R"({"image_id": 3.0, "category_id": 17, "bbox": [1, 2, 3, 4], "segmentation": [[1, 2]]})",
       R"({"image_id": 3, "category_id": 17, "bbox": [5, 2, 3, 4], "iscrowd": 1, "area": null})",
       R"({"iscrowd": true, "bbox": [6, 2, 3, 4], "category_id": 17, "image_id": 3, "area": 0})"});
  ASSERT_EQ(set.pictures[0].boxes.size(), 3U);
  EXPECT_FALSE(set.pictures[0].boxes[0].crowd);
  EXPECT_EQ(set.pictures[0].boxes[0].area, 12);
  EXPECT_TRUE(set.pictures[0].boxes[1].crowd);
  EXPECT_EQ(set.pictures[0].boxes[1].area, 12);
  EXPECT_TRUE(set.pictures[0].boxes[2].crowd);
  EXPECT_EQ(set.pictures[0].boxes[2].area, 0);
}

TEST_F(CocoReader, EachBadAnnotationIsCountedWithItsLineOrRefused) {
  const auto box = [](const std::string& bbox, const std::string& more = "") {
    return R"({"image_id": 7, "category_id": 90, "bbox": )" + bbox + more + "}";
  };
  using enum BoxFault;
  expect_fault(R"({"image_id": 8, "category_id": 90, "bbox": [1, 1, 1, 1]})", no_picture,
               ".image_id: 8 is not in \"images\"");
  expect_fault(R"({"image_id": 7, "category_id": 1, "bbox": [1, 1, 1, 1]})", unknown_class,
               ".category_id: 1 is not in \"categories\"");
  expect_fault(good(1, 2), twice, ".bbox: the same box");
  expect_fault(box("[1, 1, 0, 5]"), no_area, ".bbox: a box of width 0");
  expect_fault(box("[1, 1, 5, -2.5]"), no_area, ".bbox: a box of height -2.5");
  expect_fault(box("[1, 1, 1e300, 5]"), bad_annotation, ".bbox: 1e+300 is not a place");
  expect_fault(box("[1, 1, 5]"), bad_annotation, ".bbox: a list of 3 numbers");
  expect_fault(box("[1, 1, 5, 5, 5, 5]"), bad_annotation, ".bbox: a list of more than 4 numbers");
  expect_fault(box("[1, 1, [5], 5]"), bad_annotation, ".bbox: a list or an object");
  expect_fault(box("[1, 1, \"5\", 5]"), bad_annotation, ".bbox: a list or an object");
  expect_fault(box("\"1 1 5 5\""), bad_annotation, ".bbox: \"1 1 5 5\"");
  expect_fault(box("null"), bad_annotation, ".bbox: missing");
  expect_fault(box("{\"x\": 1}"), bad_annotation, ".bbox: a list or an object");
  expect_fault(box("[1, 1, 5, 5]", ", \"area\": -1"), bad_annotation, ".area: -1");
  expect_fault(box("[1, 1, 5, 5]", ", \"area\": \"x\""), bad_annotation, ".area: \"x\"");
  expect_fault(box("[1, 1, 5, 5]", ", \"iscrowd\": 2"), bad_annotation, ".iscrowd: 2");
  expect_fault(R"({"image_id": "7", "category_id": 90, "bbox": [1, 1, 1, 1]})", bad_annotation,
               ".image_id: \"7\", expected a whole number");
  expect_fault(R"({"image_id": 7, "bbox": [1, 1, 1, 1]})", bad_annotation, ".category_id: missing");
  expect_fault("17", bad_annotation, ": not an object");
  expect_fault("[{\"image_id\": 7}]", bad_annotation, ": not an object");
}

TEST_F(CocoReader, TheLineIsThatOfTheField) {
  const auto read_it = [&](OnBadBox on_bad) {
    return read_boxes({"{\n\"image_id\": 7,\n\"category_id\": 90,\n\"bbox\": [1,\n1, 0, 1],\n"
                       "\"area\": \"large\"\n}"},
                      {.on_bad = on_bad});
  };
  tests::expect_fault(read_it, BoxFault::bad_annotation, {"set.json:9: annotations[0].area"});
  // A number that ends its line: the parser has to look at the line's end to know.
  const auto number = [&](OnBadBox on_bad) {
    return read_boxes({"{\"bbox\": [1, 1, 1, 1], \"category_id\": 90, \"image_id\": 7.5\n\n}"},
                      {.on_bad = on_bad});
  };
  tests::expect_fault(number, BoxFault::bad_annotation, {"set.json:4: annotations[0].image_id"});
}

TEST_F(CocoReader, BadPicturesAndCategoriesAreFaultsToo) {
  const auto expect = [&](const std::string& images, const std::string& categories, BoxFault fault,
                          const std::string& what) {
    const auto read_it = [&](OnBadBox on_bad) {
      return read("{\"images\": [{\"id\": 1, \"file_name\": \"a\"}" + images +
                      "],\n\"annotations\": [], \"categories\": [{\"id\": 1, \"name\": \"cat\"}" +
                      categories + "]}",
                  {.on_bad = on_bad});
    };
    tests::expect_fault(read_it, fault, {"set.json:", what});
  };
  using enum BoxFault;
  expect(R"(, {"id": 1, "file_name": "b"})", "", twice, "images[1].id: 1");
  expect(R"(, {"id": 2, "file_name": "a"})", "", twice, "images[1].file_name: \"a\"");
  expect(R"(, {"file_name": "b"})", "", bad_annotation, "images[1].id: missing");
  expect(R"(, {"id": 2})", "", bad_annotation, "images[1].file_name: missing");
  expect(R"(, {"id": 2, "file_name": ""})", "", bad_annotation, "images[1].file_name: \"\"");
  expect(R"(, {"id": 2, "file_name": "b\u0000c"})", "", bad_annotation, "images[1].file_name");
  expect(R"(, {"id": 2, "file_name": "b", "width": -5})", "", other_size, "images[1].width: -5");
  expect(", 5", "", bad_annotation, "images[1]: not an object");
  expect("", R"(, {"id": 1, "name": "dog"})", twice, "categories[1].id: 1 again");
  expect("", R"(, {"id": 2, "name": "cat"})", twice, "categories[1].name: \"cat\" again");
  expect("", R"(, {"id": 2})", bad_annotation, "categories[1].name: missing");
}

TEST_F(CocoReader, TwoCategoriesOfOneNameAreOneClass) {
  const BoxSet set = read(
      R"({"images": [{"id": 1, "file_name": "a"}], "annotations": [
         {"image_id": 1, "category_id": 5, "bbox": [0, 0, 1, 1]},
         {"image_id": 1, "category_id": 9, "bbox": [0, 0, 2, 2]}],
         "categories": [{"id": 9, "name": "cat"}, {"id": 5, "name": "cat"}]})");
  EXPECT_EQ(set.classes, (std::vector<std::string>{"cat"}));
  EXPECT_EQ(set.class_ids, (std::vector<std::int64_t>{5}));
  EXPECT_EQ(set.boxes(), 2);
}

TEST_F(CocoReader, GivenClassesDecideTheLabels) {
  const std::vector<std::string> boxes = {
      good(1, 2), R"({"image_id": 3, "category_id": 17, "bbox": [1, 2, 3, 4]})"};
  const BoxSet set = read_boxes(boxes, {.classes = {"horse", "dog"}});
  EXPECT_EQ(set.classes, (std::vector<std::string>{"horse", "dog"}));
  EXPECT_EQ(set.class_ids, (std::vector<std::int64_t>{91, 90}));
  ASSERT_EQ(set.boxes(), 1);
  EXPECT_EQ(set.pictures[1].boxes[0].label, 1);
  EXPECT_EQ(set.report.count(BoxFault::unknown_class), 1);
  EXPECT_NE(set.report.examples[0].find("17 is not one of the classes that are used"),
            std::string::npos);
}

TEST_F(CocoReader, FileNamesMayLeaveTheFolder) {
  const BoxSet set = read(R"({"images": [{"id": 1, "file_name": "/data/a.jpg"},
      {"id": 2, "file_name": "../b.jpg"}], "annotations": [],
      "categories": [{"id": 1, "name": "cat"}]})");
  EXPECT_EQ(set.pictures[0].path, "/data/a.jpg");
  EXPECT_EQ(set.pictures[1].path, "pictures/../b.jpg");
}

TEST_F(CocoReader, WhatIsNotCocoSaysWhatIsMissing) {
  const auto refuses = [&](const std::string& text, const std::vector<std::string>& parts) {
    expect_error<ConfigError>([&] { read(text); }, parts);
  };
  refuses("{}", {"set.json", "no \"images\""});
  refuses("{\"images\": [], \"categories\": []}", {"no \"annotations\""});
  refuses("{\"images\": [], \"annotations\": []}", {"no \"categories\""});
  refuses("[\n{\"image_id\": 1}]", {"set.json:1: a list", "\"images\""});
  refuses("17", {"set.json:1: a single value"});
  refuses("{\n\"images\": {}}", {"set.json:2: \"images\" is not a list"});
  refuses("{\n\n\"annotations\": 5}", {"set.json:3: \"annotations\" is not a list"});
  refuses("{\"images\": [],\n\"images\": []}", {"set.json:2: \"images\" for the second time"});
  refuses("{\"images\": [], \"annotations\": [], \"categories\": []}", {"names no class"});
}

TEST_F(CocoReader, BrokenJsonSaysTheLine) {
  const auto corrupt = [&](const std::string& text, const std::string& part) {
    expect_error<CorruptFile>([&] { read(text); }, {"set.json", part});
  };
  corrupt("", "JSON in line 1");
  corrupt("{\n\"images\": [\n{\"id\": 1,}]}", "JSON in line 3");
  corrupt("{\"images\": [],\n\"annotations\": [{\"bbox\": [NaN]}]}", "JSON in line 2");
  corrupt("{\"images\": [],\n\n\"annotations\": [{\"bbox\": [1e999]}]}", "JSON in line 3");
  corrupt("{\"images\": [{\"file_name\": \"\xff\"}]}", "JSON in line 1");
  const std::string whole =
      "{" + kTwoImages + ", \"annotations\": [" + good(1, 2) + "]," + kTwoCategories + "}";
  for (std::size_t length = 0; length < whole.size(); length += 7)
    EXPECT_THROW(read(whole.substr(0, length)), CorruptFile) << length;
  EXPECT_THROW(read_coco(folder_.path("none.json"), "pictures"), IoError);
}

TEST_F(CocoReader, DeepNestingIsRead) {
  const std::size_t depth = 1'000'000;
  const BoxSet set =
      read("{\"info\": " + std::string(depth, '[') + std::string(depth, ']') + "," + kTwoImages +
           ", \"annotations\": [" + good(1, 2) + "]," + kTwoCategories + "}");
  EXPECT_EQ(set.boxes(), 1);
}

TEST_F(CocoReader, ExamplesAreOfEveryKindAndFew) {
  std::vector<std::string> boxes(20, "5");
  boxes.insert(boxes.end(), 20, R"({"image_id": 8, "category_id": 90, "bbox": [1, 1, 1, 1]})");
  boxes.insert(boxes.end(), 20, R"({"image_id": 7, "category_id": 8, "bbox": [1, 1, 1, 1]})");
  const BoxReport report = read_boxes(boxes).report;
  EXPECT_EQ(report.total(), 60);
  EXPECT_EQ(report.count(BoxFault::unknown_class), 20);
  ASSERT_EQ(report.examples.size(), 8U);
  EXPECT_NE(report.examples[0].find("annotations[0]: not an object, left out"), std::string::npos);
  EXPECT_NE(report.examples[7].find("annotations[41]"), std::string::npos);
}

TEST(BoxFaults, EachHasAText) {
  std::vector<std::string> texts;
  for (std::size_t fault = 0; fault < kBoxFaultKinds; ++fault) {
    texts.emplace_back(about(static_cast<BoxFault>(fault)));
    EXPECT_NE(texts.back(), "other faults");
  }
  std::sort(texts.begin(), texts.end());
  EXPECT_EQ(std::adjacent_find(texts.begin(), texts.end()), texts.end());
}

}  // namespace coco_reader_test
