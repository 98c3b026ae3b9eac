#include "box_files.h"

namespace yolo_reader_test {

using namespace lockstep;
using namespace lockstep::vision;
using tests::expect_error;
using tests::write_picture;
using tests::write_text;

const std::string kYaml = "train: images/train\nval: images/val\nnames: [cat, dog]\n";

class YoloReader : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    return write_text(folder_, name, text);
  }
  void picture(const std::string& name) { write_picture(folder_, name, 80, 60); }
  BoxSet read(const std::string& yaml = kYaml, const std::string& split = "train",
              const BoxReading& how = {}) {
    return read_yolo(write("data.yaml", yaml), split, how);
  }
  void refuses(const std::string& yaml, const std::vector<std::string>& parts) {
    expect_error<ConfigError>([&] { read(yaml); }, parts);
  }

  /// The line is the second one of images/train/a.png's labels.
  void expect_fault(const std::string& line, BoxFault fault, const std::string& what) {
    picture("images/train/a.png");
    write("labels/train/a.txt", "0 0.5 0.5 0.5 0.5\n" + line + "\n");
    const auto read_it = [&](OnBadBox on_bad) {
      BoxSet set = read(kYaml, "train", {.on_bad = on_bad});
      EXPECT_EQ(set.boxes(), 1) << what;
      return set;
    };
    tests::expect_fault(read_it, fault, {"labels/train/a.txt:2: " + what});
  }

  tests::Folder folder_;
};

TEST_F(YoloReader, BoxesAreRelativeToTheirPicture) {
  picture("images/train/b.png");
  picture("images/train/sub/a.png");
  picture("images/train/.hidden.png");
  write("images/train/notes.txt", "no picture");
  write("labels/train/b.txt", "1 0.5 0.5 1 1\n\n 0.0 0.25 0.5 0.5 0.25\r\n");
  const BoxSet set = read();
  EXPECT_EQ(set.classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(set.class_ids, (std::vector<std::int64_t>{1, 2}));
  ASSERT_EQ(set.pictures.size(), 2U);
  EXPECT_EQ(set.pictures[0].path, folder_.path("images/train/b.png"));
  EXPECT_EQ(set.pictures[0].size.width, 80);
  EXPECT_EQ(set.pictures[0].lines, (std::vector<std::int64_t>{1, 3}));
  ASSERT_EQ(set.pictures[0].boxes.size(), 2U);
  EXPECT_EQ(set.pictures[0].boxes[0].box, (Box{0, 0, 80, 60}));
  EXPECT_EQ(set.pictures[0].boxes[0].label, 1);
  EXPECT_EQ(set.pictures[0].boxes[1].box, (Box{0, 22.5, 40, 15}));
  EXPECT_EQ(set.pictures[0].boxes[1].area, 600);
  EXPECT_EQ(set.pictures[1].id, 2);
  EXPECT_TRUE(set.pictures[1].boxes.empty());
  EXPECT_EQ(set.report.total(), 0);
}

TEST_F(YoloReader, BoxesAreRelativeToTheUprightPicture) {
  folder_.write("images/train/a.jpg",
                tests::jpeg(tests::gradient(80, 60), {.exif = tests::exif(6)}));
  write("labels/train/a.txt", "0 0.5 0.5 1 0.5\n");
  EXPECT_EQ(read().pictures.at(0).boxes.at(0).box, (Box{0, 20, 60, 40}));
}

TEST_F(YoloReader, EachBadLineIsCountedWithItsNumberOrRefused) {
  using enum BoxFault;
  expect_fault("0 0.5 0.5 0.5 0.5", twice, "the same box");
  expect_fault("2 0.5 0.5 0.5 0.5", unknown_class, "class: 2, but \"names\" has 2 classes");
  expect_fault("-1 0.5 0.5 0.5 0.5", bad_annotation, "class: \"-1\"");
  expect_fault("cat 0.5 0.5 0.5 0.5", bad_annotation, "class: \"cat\"");
  expect_fault("0 0.5 0.5 0 0.5", no_area, "a box of width 0");
  expect_fault("0 0.5 0.5 0.5 -0.5", no_area, "a box of height -30");
  expect_fault("0 0.5 0.5 0.5", bad_annotation, "4 columns");
  expect_fault("0 0.1 0.1 0.2 0.1 0.2 0.2", bad_annotation, "7 columns, expected class, x, y");
  expect_fault("0 0.5 nan 0.5 0.5", bad_annotation, "y: \"nan\"");
  expect_fault("0 40 30 20 20", bad_annotation, "x: \"40\", expected a part of the picture");
  expect_fault("0 0,5 0.5 0.5 0.5", bad_annotation, "x: \"0,5\"");
}

TEST_F(YoloReader, APictureThatCannotBeReadIsCounted) {
  picture("images/train/a.png");
  write("images/train/b.jpg", "not a picture");
  const auto read_it = [&](OnBadBox on_bad) {
    BoxSet set = read(kYaml, "train", {.on_bad = on_bad});
    EXPECT_EQ(set.pictures.size(), 1U);
    return set;
  };
  tests::expect_fault(read_it, BoxFault::bad_picture, {"images/train/b.jpg: at byte 0"});
}

TEST_F(YoloReader, NamesAreAListOrAMapping) {
  picture("images/train/a.png");
  const std::string folders = "train: images/train\n";
  for (const char* names : {"names: [cat, 'dog']", "names:\n- cat\n- dog",
                            "names:\n  0: cat\n  1: dog", "names: {1: dog, 0: cat}\nnc: 2"})
    EXPECT_EQ(read(folders + names).classes, (std::vector<std::string>{"cat", "dog"})) << names;
  refuses(folders, {"data.yaml: no \"names\""});
  refuses(folders + "names: []", {"no \"names\""});
  refuses(folders + "names: cat", {"data.yaml:2: names: expected a list"});
  refuses(folders + "names:\n  0: cat\n  2: dog", {"data.yaml:4: names: class 2 but no class 1"});
  refuses(folders + "names: {0: cat, 0: dog}", {"data.yaml:2: names: class 0 again"});
  refuses(folders + "names: {one: cat}", {"data.yaml:2: names: expected the number of a class"});
  refuses(folders + "names: [cat, [dog]]", {"data.yaml:2: names: expected a text"});
  refuses(folders + "names: [cat, '']", {"data.yaml:2: names: a class without a name"});
  refuses(folders + "names: [cat, cat]", {"data.yaml:2: names: \"cat\" is the name of two"});
  refuses(folders + "names: [cat, dog]\nnc: 3", {"data.yaml:3: nc: \"3\", but \"names\" has 2"});
  refuses("- names", {"data.yaml:1: expected keys"});
  refuses("", {"data.yaml:1: expected keys"});
}

TEST_F(YoloReader, PathAndSplitsAreFoundAsPeopleWriteThem) {
  picture("set/images/a.png");
  picture("set/more/images/b.png");
  write("set/labels/a.txt", "0 0.5 0.5 0.5 0.5\n");
  write("set/more/labels/b.txt", "0 0.5 0.5 0.5 0.5\n");
  write("set/list.txt", "# two pictures\n./images/a.png\nmore/images/b.png\n");
  write("set/lists/list.txt", "images/a.png\n");
  const std::string names = "\nnames: [cat]\ndownload: |\n  line\n  line\nextra: {a: [b]}\n";
  for (const auto& [yaml, pictures] : std::vector<std::pair<std::string, int>>{
           {"path: set\ntrain: images", 1},
           {"path: " + folder_.path("set") + "\ntrain: images/", 1},
           {"path: set\ntrain: [images, more/images]", 2},
           {"train: ../set/images", 1},
           {"path: set\ntrain: .", 2},
           {"path: set\ntrain: list.txt", 2},
           {"train: set/list.txt", 2},
           {"path: set\ntrain: lists/list.txt", 1}}) {
    const BoxSet set = read(yaml + names);
    EXPECT_EQ(set.pictures.size(), static_cast<std::size_t>(pictures)) << yaml;
    EXPECT_EQ(set.boxes(), pictures) << yaml;
  }
  refuses("path: nowhere\ntrain: images" + names, {"data.yaml:1: path: no folder", "nowhere"});
  refuses("train: nowhere" + names, {"data.yaml:1: train: no folder or list", "nowhere"});
  refuses("train: set/labels" + names, {"data.yaml:1: train: no pictures there"});
  refuses("val: images" + names, {"data.yaml: no \"train\""});
}

TEST_F(YoloReader, APictureTwiceIsCounted) {
  picture("images/a.png");
  write("list.txt", "images/a.png\nimages/a.png\n");
  tests::expect_fault(
      [&](OnBadBox on_bad) {
        return read("train: list.txt\nnames: [cat]", "train", {.on_bad = on_bad});
      },
      BoxFault::twice, {"list.txt:2: the picture", "images/a.png again"});
}

TEST_F(YoloReader, GivenClassesDecideTheLabels) {
  picture("images/train/a.png");
  write("labels/train/a.txt", "0 0.5 0.5 0.5 0.5\n1 0.5 0.5 0.5 0.5\n");
  const BoxSet set = read(kYaml, "train", {.classes = {"horse", "dog"}});
  EXPECT_EQ(set.classes, (std::vector<std::string>{"horse", "dog"}));
  ASSERT_EQ(set.boxes(), 1);
  EXPECT_EQ(set.pictures[0].boxes[0].label, 1);
  EXPECT_EQ(set.report.count(BoxFault::unknown_class), 1);
}

TEST_F(YoloReader, SplitsCanBeAskedFor) {
  const std::string yaml =
      write("data.yaml", "train: a\nval: [b, c]\ntest:  # none\nnames: [cat]\n");
  EXPECT_TRUE(yolo_has_split(yaml, "train"));
  EXPECT_TRUE(yolo_has_split(yaml, "val"));
  EXPECT_FALSE(yolo_has_split(yaml, "test"));
  EXPECT_FALSE(yolo_has_split(yaml, "other"));
}

TEST_F(YoloReader, BrokenYamlSaysTheLine) {
  const auto corrupt = [&](const std::string& text, const std::string& part) {
    expect_error<CorruptFile>([&] { read(text); }, {"data.yaml", part});
  };
  corrupt("names: [cat\ntrain: images\n", "YAML in line 2");
  corrupt("names: [cat]\n\ntrain: \"images\xff\"\n", "UTF-8 in line 3");
  corrupt("names: [cat]\nextra: " + std::string(1000, '[') + std::string(1000, ']'),
          "lists and mappings that are nested less deeply in line 2");
  EXPECT_THROW(read_yolo(folder_.path("none.yaml"), "train"), IoError);
}

TEST_F(YoloReader, TheResultIsTheSameForAnyNumberOfWorkers) {
  for (int i = 0; i < 12; ++i)
    write_picture(folder_, "images/train/" + std::to_string(10 + i) + ".png", 10 + i, 9);
  write("images/train/15.png", "bad");
  write("images/train/17.png", "bad");
  const BoxSet one = read(kYaml, "train", {.workers = 1}),
               many = read(kYaml, "train", {.workers = 5});
  ASSERT_EQ(one.pictures.size(), 10U);
  ASSERT_EQ(many.pictures.size(), 10U);
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(one.pictures[i].path, many.pictures[i].path);
    EXPECT_EQ(one.pictures[i].size.width, many.pictures[i].size.width);
  }
  EXPECT_EQ(one.report.examples, many.report.examples);
}

}  // namespace yolo_reader_test
