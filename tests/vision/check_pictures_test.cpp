// Pictures against their annotations; and one data set in all three formats.

#include <algorithm>
#include <stdexcept>

#include "box_files.h"

namespace check_pictures_test {

using namespace lockstep;
using namespace lockstep::vision;
using tests::expect_error;
using tests::write_picture;
using tests::write_text;

class CheckPictures : public testing::Test {
 protected:
  /// A set of one picture of 80 x 60 with those boxes, in the lines 11, 12, ...
  BoxSet set_of(const std::vector<Box>& boxes) {
    BoxedPicture picture{.path = write_picture(folder_, "a.png", 80, 60), .id = 1, .where = "s:7"};
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      picture.boxes.push_back({.box = boxes[i], .area = boxes[i].area()});
      picture.lines.push_back(static_cast<std::int64_t>(11 + i));
    }
    return {.classes = {"cat"}, .class_ids = {1}, .pictures = {picture}};
  }

  void expect_fault(const Box& box, BoxFault fault, const std::vector<std::string>& parts) {
    const auto check = [&](OnBadBox on_bad) {
      BoxSet set = set_of({{0, 0, 1, 1}, box});
      check_pictures(set, on_bad, 1);
      return set;
    };
    tests::expect_fault(check, fault, parts);
  }

  static Box cut(BoxSet set) {
    check_pictures(set, OnBadBox::skip, 1);
    return set.pictures.at(0).boxes.at(0).box;
  }

  tests::Folder folder_;
};

TEST_F(CheckPictures, SetsTheSizeAndKeepsWhatIsInside) {
  BoxSet set = set_of({{0, 0, 80, 60}, {10.5, 20, 0.25, 1}});
  check_pictures(set, OnBadBox::refuse, 2);
  EXPECT_EQ(set.pictures[0].size.width, 80);
  EXPECT_EQ(set.pictures[0].size.height, 60);
  ASSERT_EQ(set.boxes(), 2);
  EXPECT_EQ(set.pictures[0].boxes[1].box, (Box{10.5, 20, 0.25, 1}));
  EXPECT_EQ(set.report.total(), 0);
}

TEST_F(CheckPictures, APixelBeyondIsCutInSilence) {
  BoxSet set = set_of({{-1, -0.5, 82, 61.5}});
  check_pictures(set, OnBadBox::refuse, 1);
  EXPECT_EQ(set.pictures[0].boxes[0].box, (Box{0, 0, 80, 60}));
  EXPECT_EQ(set.pictures[0].boxes[0].area, 4800);
}

TEST_F(CheckPictures, MoreThanAPixelBeyondIsCutAndCounted) {
  expect_fault({70, 10, 20, 20}, BoxFault::beyond,
               {"s:12: a box from 70, 10 to 90, 30 reaches beyond", "a.png, which is 80 x 60"});
  expect_fault({70, 10, 11.25, 20}, BoxFault::beyond, {"s:12: a box from 70, 10 to 81.25, 30"});
  EXPECT_EQ(cut(set_of({{70, 10, 20, 20}})), (Box{70, 10, 10, 20}));
  EXPECT_EQ(cut(set_of({{-5, -7, 20, 20}})), (Box{0, 0, 15, 13}));
}

TEST_F(CheckPictures, ABoxOutsideIsLeftOutAndCounted) {
  for (const Box& box : {Box{80, 0, 10, 10},
                         {80, 0, 0.5, 10},
                         {0, 60, 1, 0.5},
                         {-20, 5, 20, 10},
                         {0, -1e9, 1, 1e9},
                         {200, 200, 1, 1}})
    expect_fault(box, BoxFault::outside, {"s:12: a box from", "outside of"});
}

TEST_F(CheckPictures, TheAreaOfAMaskStays) {
  BoxSet set = set_of({{-5, 0, 20, 10}});
  set.pictures[0].boxes[0].area = 77;
  check_pictures(set, OnBadBox::skip, 1);
  EXPECT_EQ(set.pictures[0].boxes[0].area, 77);
  EXPECT_EQ(set.pictures[0].boxes[0].box, (Box{0, 0, 15, 10}));
}

TEST_F(CheckPictures, AnotherSizeIsCountedAndTheBoxesStay) {
  const auto check = [&](ImageSize said, OnBadBox on_bad) {
    BoxSet set = set_of({{1, 2, 3, 4}});
    set.pictures[0].size = said;
    check_pictures(set, on_bad, 1);
    EXPECT_EQ(set.pictures[0].size.width, 80);
    EXPECT_EQ(set.pictures[0].boxes.at(0).box, (Box{1, 2, 3, 4}));
    return set;
  };
  tests::expect_fault(
      [&](OnBadBox on_bad) {
        return check({160, 120}, on_bad);
      },
      BoxFault::other_size, {"s:7: ", "is 80 x 60, the annotation says 160 x 120"});
  tests::expect_fault(
      [&](OnBadBox on_bad) {
        return check({60, 80}, on_bad);
      },
      BoxFault::other_size, {"the annotation says 60 x 80 (EXIF turns"});
  EXPECT_EQ(check({80, 60}, OnBadBox::refuse).report.total(), 0);
}

TEST_F(CheckPictures, APictureThatCannotBeReadIsLeftOut) {
  for (const char* name : {"missing.jpg", "bad.jpg"}) {
    write_text(folder_, "bad.jpg", "no picture");
    const auto check = [&](OnBadBox on_bad) {
      BoxSet set = set_of({{0, 0, 1, 1}});
      set.pictures.push_back({.path = folder_.path(name), .id = 2, .where = "s:9"});
      check_pictures(set, on_bad, 1);
      EXPECT_EQ(set.pictures.size(), 1U);
      return set;
    };
    tests::expect_fault(check, BoxFault::bad_picture, {"s:9: ", name});
  }
}

TEST_F(CheckPictures, NothingLeftIsRefused) {
  BoxSet set{.classes = {"cat"}, .class_ids = {1}, .pictures = {{.path = "nowhere/a.jpg"}}};
  expect_error<ConfigError>([&] { check_pictures(set, OnBadBox::skip, 3); },
                            {"none of 1 pictures", "nowhere/a.jpg: cannot open"});
  BoxSet empty;
  EXPECT_THROW(check_pictures(empty, OnBadBox::skip, 3), ConfigError);
}

TEST_F(CheckPictures, UprightSizesCount) {
  BoxSet set = set_of({{0, 50, 60, 30}});
  set.pictures[0].path =
      folder_.write("turned.jpg", tests::jpeg(tests::gradient(80, 60), {.exif = tests::exif(8)}));
  check_pictures(set, OnBadBox::refuse, 1);
  EXPECT_EQ(set.pictures[0].size.width, 60);
  EXPECT_EQ(set.pictures[0].boxes[0].box, (Box{0, 50, 60, 30}));
}

/// A header longer than what is read at first: five comments of 60 KB before the size.
TEST_F(CheckPictures, ALongHeaderIsReadToItsEnd) {
  tests::Bytes file = tests::jpeg(tests::gradient(80, 60));
  tests::Bytes comment(60000, 'x');
  comment[0] = 0xff, comment[1] = 0xfe, comment[2] = 59998 >> 8, comment[3] = 59998 & 0xff;
  for (int i = 0; i < 5; ++i) file.insert(file.begin() + 2, comment.begin(), comment.end());
  BoxSet set = set_of({});
  set.pictures[0].path = folder_.write("long.jpg", file);
  check_pictures(set, OnBadBox::refuse, 1);
  EXPECT_EQ(set.pictures[0].size.width, 80);
}

TEST_F(CheckPictures, TheResultIsTheSameForAnyNumberOfWorkers) {
  const std::string good = write_picture(folder_, "good.png", 80, 60);
  const std::string bad = write_text(folder_, "bad.png", "bad");
  const auto checked = [&](int workers) {
    BoxSet set;
    for (int i = 0; i < 300; ++i)
      set.pictures.push_back({.path = i % 7 == 3 ? bad : good,
                              .id = i,
                              .boxes = {{.box = {70.0 + i % 20, 0, 9, 9}}},
                              .where = "s:" + std::to_string(i)});
    std::vector<std::int64_t> calls;
    check_pictures(set, OnBadBox::skip, workers, [&](std::int64_t done) { calls.push_back(done); });
    EXPECT_TRUE(std::is_sorted(calls.begin(), calls.end()));
    EXPECT_EQ(calls.back(), 300);
    return set;
  };
  const BoxSet one = checked(1);
  EXPECT_EQ(one.pictures.size(), 257U);
  for (const int workers : {2, 3, 8}) {
    const BoxSet many = checked(workers);
    EXPECT_EQ(many.report.counts, one.report.counts);
    EXPECT_EQ(many.report.examples, one.report.examples);
    ASSERT_EQ(many.pictures.size(), one.pictures.size());
    for (std::size_t i = 0; i < one.pictures.size(); ++i) {
      EXPECT_EQ(many.pictures[i].id, one.pictures[i].id);
      EXPECT_EQ(many.pictures[i].boxes.size(), one.pictures[i].boxes.size());
    }
  }
}

TEST_F(CheckPictures, WhatProgressThrowsEndsTheReading) {
  BoxSet set = set_of({});
  const auto stop = [](std::int64_t) { throw std::range_error("stop"); };
  EXPECT_THROW(check_pictures(set, OnBadBox::skip, 2, stop), std::range_error);
}

/// Boxes with whole pixels in pictures of 64 x 32, whose parts are exact in binary.
struct Drawn {
  std::string name;
  std::vector<std::pair<int, Box>> boxes;  ///< class and place
};
const std::vector<Drawn> kDrawn = {
    {"a", {{0, {0, 0, 64, 32}}, {2, {5, 6, 7, 8}}}}, {"b", {}}, {"c", {{1, {63, 31, 1, 1}}}}};
const std::vector<std::string> kClasses = {"bird", "cat", "dog"};

class ThreeFormats : public CheckPictures {
 protected:
  void SetUp() override {
    for (const Drawn& drawn : kDrawn)
      write_picture(folder_, "images/" + drawn.name + ".png", 64, 32);
  }

  BoxSet coco() {
    std::string images, boxes, categories;
    const std::vector<int> ids = {4, 20, 21};
    for (std::size_t i = 0; i < kDrawn.size(); ++i) {
      images += (i > 0 ? "," : "") + std::string("{\"id\":") + std::to_string(i + 1) +
                ",\"file_name\":\"" + kDrawn[i].name + ".png\"}";
      for (const auto& [label, box] : kDrawn[i].boxes)
        boxes += (boxes.empty() ? "" : ",") + std::string("{\"image_id\":") +
                 std::to_string(i + 1) +
                 ",\"category_id\":" + std::to_string(ids[static_cast<std::size_t>(label)]) +
                 ",\"bbox\":[" + std::to_string(box.left) + "," + std::to_string(box.top) + "," +
                 std::to_string(box.width) + "," + std::to_string(box.height) + "]}";
    }
    for (std::size_t i = 0; i < ids.size(); ++i)
      categories += (i > 0 ? "," : "") + std::string("{\"id\":") + std::to_string(ids[i]) +
                    ",\"name\":\"" + kClasses[i] + "\"}";
    return read_coco(write_text(folder_, "set.json",
                                "{\"images\":[" + images + "],\"annotations\":[" + boxes +
                                    "],\"categories\":[" + categories + "]}"),
                     folder_.path("images"));
  }

  BoxSet voc() {
    for (const Drawn& drawn : kDrawn) {
      std::string objects;
      for (const auto& [label, box] : drawn.boxes)
        objects += "<object><name>" + kClasses[static_cast<std::size_t>(label)] +
                   "</name><bndbox><xmin>" + std::to_string(box.left + 1) + "</xmin><ymin>" +
                   std::to_string(box.top + 1) + "</ymin><xmax>" + std::to_string(box.right()) +
                   "</xmax><ymax>" + std::to_string(box.bottom()) + "</ymax></bndbox></object>";
      write_text(
          folder_, "annotations/xmls/" + drawn.name + ".xml",
          "<annotation><filename>" + drawn.name + ".png</filename>" + objects + "</annotation>");
    }
    return read_voc(folder_.path(), "");
  }

  BoxSet yolo() {
    for (const Drawn& drawn : kDrawn) {
      std::string lines;
      for (const auto& [label, box] : drawn.boxes)
        for (const std::string& column :
             {std::to_string(label), std::to_string((box.left + box.width / 2) / 64),
              std::to_string((box.top + box.height / 2) / 32), std::to_string(box.width / 64),
              std::to_string(box.height / 32) + "\n"})
          lines += column + " ";
      if (!lines.empty()) write_text(folder_, "labels/" + drawn.name + ".txt", lines);
    }
    const std::string yaml = "train: images\nnames: [bird, cat, dog]\n";
    return read_yolo(write_text(folder_, "data.yaml", yaml), "train");
  }
};

TEST_F(ThreeFormats, OneDataSetReadsAsTheSameBoxes) {
  for (BoxSet set : {coco(), voc(), yolo()}) {
    check_pictures(set, OnBadBox::refuse, 2);
    EXPECT_EQ(set.classes, kClasses);
    ASSERT_EQ(set.pictures.size(), kDrawn.size());
    for (std::size_t i = 0; i < kDrawn.size(); ++i) {
      const BoxedPicture& picture = set.pictures[i];
      EXPECT_EQ(picture.path, folder_.path("images/" + kDrawn[i].name + ".png"));
      EXPECT_EQ(picture.id, static_cast<std::int64_t>(i + 1));
      EXPECT_EQ(picture.size.width, 64);
      ASSERT_EQ(picture.boxes.size(), kDrawn[i].boxes.size());
      for (std::size_t b = 0; b < picture.boxes.size(); ++b) {
        const auto& [label, box] = kDrawn[i].boxes[b];
        const LabelledBox& found = picture.boxes[b];
        EXPECT_EQ(found.label, label);
        // YOLO's parts are written with six digits: of 64 pixels that is 3e-5 of one.
        EXPECT_NEAR(found.box.left, box.left, 1e-4);
        EXPECT_NEAR(found.box.top, box.top, 1e-4);
        EXPECT_NEAR(found.box.width, box.width, 1e-4);
        EXPECT_NEAR(found.box.height, box.height, 1e-4);
        EXPECT_NEAR(found.area, box.area(), 1e-2);
      }
    }
  }
}

}  // namespace check_pictures_test
