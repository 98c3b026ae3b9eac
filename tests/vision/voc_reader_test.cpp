#include "box_files.h"

namespace voc_reader_test {

using namespace lockstep;
using namespace lockstep::vision;
using tests::expect_error;
using tests::write_picture;
using tests::write_text;

std::string object(const std::string& name, const std::string& box) {
  return "<object><name>" + name + "</name>" + box + "</object>\n";
}

std::string box(const std::string& left, const std::string& top, const std::string& right,
                const std::string& bottom) {
  return "<bndbox><xmin>" + left + "</xmin><ymin>" + top + "</ymin><xmax>" + right +
         "</xmax><ymax>" + bottom + "</ymax></bndbox>";
}

/// The first object is in line 5.
std::string xml(const std::string& filename, const std::string& objects) {
  return "<?xml version=\"1.0\"?>\n<annotation>\n<filename>" + filename +
         "</filename>\n<size><width>80</width><height>60</height><depth>3</depth></size>\n" +
         objects + "</annotation>\n";
}

class VocReader : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    return write_text(folder_, name, text);
  }
  BoxSet read(const std::string& list = "", const BoxReading& how = {}) {
    return read_voc(folder_.path(), list, how);
  }

  /// `objects` begin in line 5 of a.xml.
  void expect_fault(const std::string& objects, BoxFault fault,
                    const std::vector<std::string>& parts, std::size_t pictures = 1) {
    write("a.xml", xml("a.png", objects));
    const auto read_it = [&](OnBadBox on_bad) {
      BoxSet set = read("", {.on_bad = on_bad});
      EXPECT_EQ(set.pictures.size(), pictures) << parts.front();
      return set;
    };
    tests::expect_fault(read_it, fault, parts);
  }

  tests::Folder folder_;
};

TEST_F(VocReader, PixelsAreOneBasedAndInclusive) {
  write_picture(folder_, "a.png", 80, 60);
  write("a.xml",
        xml("a.png", object("dog", "<difficult>1</difficult>" + box("1", "1", "80", "60")) +
                         object("cat", box("11", "21", "20", "21"))));
  const BoxSet set = read();
  EXPECT_EQ(set.classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(set.class_ids, (std::vector<std::int64_t>{1, 2}));
  ASSERT_EQ(set.pictures.size(), 1U);
  const BoxedPicture& picture = set.pictures[0];
  EXPECT_EQ(picture.path, folder_.path("a.png"));
  EXPECT_EQ(picture.id, 1);
  EXPECT_EQ(picture.size.width, 80);
  EXPECT_EQ(picture.where, folder_.path("a.xml") + ":3");
  EXPECT_EQ(picture.lines, (std::vector<std::int64_t>{5, 6}));
  ASSERT_EQ(picture.boxes.size(), 2U);
  EXPECT_EQ(picture.boxes[0].box, (Box{0, 0, 80, 60}));
  EXPECT_EQ(picture.boxes[0].label, 1);
  EXPECT_TRUE(picture.boxes[0].difficult);
  EXPECT_EQ(picture.boxes[1].box, (Box{10, 20, 10, 1}));
  EXPECT_EQ(picture.boxes[1].area, 10);
  EXPECT_FALSE(picture.boxes[1].difficult);
  EXPECT_EQ(set.report.total(), 0);
}

TEST_F(VocReader, FieldsMayComeInAnyOrderAndBeMissing) {
  write("a.xml", "<annotation><object><part><name>head</name>" + box("1", "1", "2", "2") +
                     "</part><bndbox><ymax> 30.5 </ymax><xmax>40</xmax>\n<ymin>1.5</ymin>"
                     "<xmin>2e0</xmin></bndbox><name> cat\n</name></object></annotation>");
  const BoxSet set = read();
  EXPECT_EQ(set.report.total(), 0);
  ASSERT_EQ(set.boxes(), 1);
  EXPECT_EQ(set.classes, (std::vector<std::string>{"cat"}));
  EXPECT_EQ(set.pictures[0].boxes[0].box, (Box{1, 0.5, 39, 30}));
  EXPECT_EQ(set.pictures[0].size.width, 0);
  EXPECT_EQ(set.pictures[0].path, folder_.path("a.jpg"));
}

TEST_F(VocReader, APictureWithoutObjectsStays) {
  write("a.xml", xml("a.png", ""));
  const BoxSet set = read();
  EXPECT_EQ(set.pictures.size(), 1U);
  EXPECT_EQ(set.boxes(), 0);
  EXPECT_EQ(set.report.total(), 0);
}

TEST_F(VocReader, ThePictureIsTheFileNameOrTheNameOfTheXml) {
  write_picture(folder_, "said.png", 8, 8);
  write_picture(folder_, "b.png", 8, 8);
  write_picture(folder_, "c.JPG", 8, 8);
  write("a.xml", xml("said.png", ""));
  write("b.xml", xml("C:\\photos\\b.png", ""));
  write("c.xml", xml("c", ""));
  write("d.xml", xml("nowhere.jpg", ""));
  const BoxSet set = read();
  ASSERT_EQ(set.pictures.size(), 4U);
  EXPECT_EQ(set.pictures[0].path, folder_.path("said.png"));
  EXPECT_EQ(set.pictures[1].path, folder_.path("b.png"));
  EXPECT_EQ(set.pictures[2].path, folder_.path("c.JPG"));
  EXPECT_EQ(set.pictures[3].path, folder_.path("nowhere.jpg"));
}

TEST_F(VocReader, ReadsVocsOwnFoldersAndLists) {
  for (const char* name : {"a", "b", "c"}) {
    write("Annotations/" + std::string(name) + ".xml",
          xml(std::string(name) + ".png", object(name, box("1", "1", "9", "9"))));
    write_picture(folder_, "JPEGImages/" + std::string(name) + ".png", 80, 60);
  }
  write("ImageSets/Main/train.txt", "# a comment\nc  1\n\na -1\r\n");
  EXPECT_EQ(read().pictures.size(), 3U);
  const BoxSet set = read("train");
  ASSERT_EQ(set.pictures.size(), 2U);
  EXPECT_EQ(set.pictures[0].path, folder_.path("JPEGImages/c.png"));
  EXPECT_EQ(set.pictures[1].path, folder_.path("JPEGImages/a.png"));
  EXPECT_EQ(set.pictures[1].id, 2);
  EXPECT_EQ(set.classes, (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(set.pictures[0].boxes[0].label, 1);
  const std::string own = write("my/list.txt", "b.png\n");
  EXPECT_EQ(read(own).pictures.size(), 1U);
  EXPECT_EQ(read("my/list.txt").pictures.size(), 1U);
}

TEST_F(VocReader, ReadsOxfordsPetsAndCountsWhatHasNoXml) {
  write("annotations/xmls/Abyssinian_1.xml",
        xml("Abyssinian_1.png", object("cat", box("1", "1", "9", "9"))));
  write("annotations/trainval.txt", "Abyssinian_1 1 1 1\nAbyssinian_2 1 1 1\n");
  write_picture(folder_, "images/Abyssinian_1.png", 80, 60);
  write_picture(folder_, "images/Abyssinian_2.png", 80, 60);
  const auto read_it = [&](OnBadBox on_bad) {
    BoxSet set = read("trainval", {.on_bad = on_bad});
    EXPECT_EQ(set.pictures.size(), 1U);
    EXPECT_EQ(set.pictures[0].path, folder_.path("images/Abyssinian_1.png"));
    return set;
  };
  tests::expect_fault(read_it, BoxFault::bad_annotation,
                      {"annotations/trainval.txt:2: \"Abyssinian_2\" has no annotation"});
}

TEST_F(VocReader, AnItemTwiceIsCounted) {
  write("a.xml", xml("a.png", ""));
  write("b.xml", xml("b.png", ""));
  write("list.txt", "a\nb\na\n");
  tests::expect_fault([&](OnBadBox on_bad) { return read("list.txt", {.on_bad = on_bad}); },
                      BoxFault::twice, {"list.txt:3: \"a\" again"});
}

TEST_F(VocReader, TwoAnnotationsOfOnePictureAreCounted) {
  write("a.xml", xml("a.png", ""));
  write("b.xml", xml("a.png", ""));
  tests::expect_fault([&](OnBadBox on_bad) { return read("", {.on_bad = on_bad}); },
                      BoxFault::twice, {"b.xml:3: the picture", "a.png again"});
}

TEST_F(VocReader, EachBadObjectIsCountedWithItsLineOrRefused) {
  const std::string good = object("cat", box("1", "1", "9", "9"));
  using enum BoxFault;
  expect_fault(good + object("cat", box("9", "1", "7", "9")), no_area,
               {"a.xml:6: object[2]/bndbox: a box of width -1"});
  expect_fault(good + good, twice, {"a.xml:6: object[2]/bndbox: the same box"});
  expect_fault("\n" + object("cat", box("1", "x", "7", "9")), bad_annotation,
               {"a.xml:6: object[1]/bndbox/ymin: \"x\", expected a number"});
  expect_fault(object("cat", box("1", "1", "nan", "9")), bad_annotation,
               {"a.xml:5: object[1]/bndbox/xmax: \"nan\""});
  expect_fault(object("cat", box("1", "1", "1e40", "9")), bad_annotation,
               {"a.xml:5: object[1]/bndbox: 1e+40 is not a place"});
  expect_fault(object("cat", "<bndbox>\n<xmin>1</xmin></bndbox>"), bad_annotation,
               {"a.xml:5: object[1]/bndbox/ymin: missing"});
  expect_fault(object("cat", ""), bad_annotation, {"a.xml:5: object[1]/bndbox/xmin: missing"});
  expect_fault(object("", box("1", "1", "9", "9")), bad_annotation,
               {"a.xml:5: object[1]/name: \"\""});
  expect_fault(object("\xff", box("1", "1", "9", "9")), bad_annotation,
               {"a.xml:5: object[1]/name"});
  expect_fault(object("cat", "\n<difficult>maybe</difficult>" + box("1", "1", "9", "9")),
               bad_annotation, {"a.xml:6: object[1]/difficult: \"maybe\", expected 0 or 1"});
  expect_fault("<size><width>1</width></size><object>", bad_annotation, {"a.xml:", "not XML"}, 0);
}

TEST_F(VocReader, OtherXmlIsCountedAndItsPictureLeftOut) {
  write("a.xml", "\n<rss></rss>");
  tests::expect_fault([&](OnBadBox on_bad) { return read("", {.on_bad = on_bad}); },
                      BoxFault::bad_annotation, {"a.xml:2: no <annotation>"});
  write("a.xml", "");
  tests::expect_fault([&](OnBadBox on_bad) { return read("", {.on_bad = on_bad}); },
                      BoxFault::bad_annotation, {"a.xml:1: not XML"});
}

TEST_F(VocReader, ABadSizeIsCountedAndThePictureStays) {
  write("a.xml", "<annotation>\n<size><width>wide</width><height>5</height></size></annotation>");
  const auto read_it = [&](OnBadBox on_bad) {
    BoxSet set = read("", {.on_bad = on_bad});
    EXPECT_EQ(set.pictures.size(), 1U);
    return set;
  };
  tests::expect_fault(read_it, BoxFault::other_size, {"a.xml:2: size/width: \"wide\""});
}

TEST_F(VocReader, GivenClassesDecideTheLabels) {
  write("a.xml", xml("a.png", object("dog", box("1", "1", "9", "9")) +
                                  object("cow", box("1", "1", "9", "9"))));
  const auto read_it = [&](OnBadBox on_bad) {
    BoxSet set = read("", {.on_bad = on_bad, .classes = {"zebra", "dog"}});
    EXPECT_EQ(set.classes, (std::vector<std::string>{"zebra", "dog"}));
    EXPECT_EQ(set.pictures[0].boxes.at(0).label, 1);
    return set;
  };
  tests::expect_fault(read_it, BoxFault::unknown_class,
                      {"a.xml:6: object[2]/name: \"cow\" is not one of the classes"});
}

TEST_F(VocReader, DeepNestingIsRead) {
  const int depth = 100'000;
  std::string deep;
  for (int i = 0; i < depth; ++i) deep += "<a>";
  for (int i = 0; i < depth; ++i) deep += "</a>";
  write("a.xml", xml("a.png", deep + object("cat", box("1", "1", "9", "9"))));
  EXPECT_EQ(read().boxes(), 1);
}

TEST_F(VocReader, AFolderOrListThatIsNotThereIsRefused) {
  expect_error<ConfigError>([&] { read(); }, {"no *.xml", "Annotations/"});
  expect_error<ConfigError>([&] { read_voc(folder_.path("none"), ""); }, {"none: no such folder"});
  write("a.xml", xml("a.png", ""));
  expect_error<ConfigError>([&] { read("train"); },
                            {"no list \"train\"", "ImageSets/Main/train.txt"});
  write("empty.txt", "# nothing\n");
  expect_error<ConfigError>([&] { read("empty.txt"); }, {"empty.txt: the list has no names"});
}

}  // namespace voc_reader_test
