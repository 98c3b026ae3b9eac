// The images of a recipe, as the program trains on them.

#include "families/classify/data.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "apps/recipe_case.h"
#include "folder.h"
#include "input/shares.h"
#include "vision/pictures.h"

namespace lockstep::apps {
namespace classify_data_test {

namespace fs = std::filesystem;

/// Ten images in a folder of one class; two batches an epoch.
ClassifyData data_in(const tests::Folder& folder) {
  for (int i = 0; i < 10; ++i)
    folder.write("cat/" + std::to_string(i) + ".jpg", tests::jpeg(tests::gradient(40 + i, 40)));
  return classify_data(
      read("family = \"classify\"\n[data]\nkind = \"folder\"\nsize = 24\nbatch = 6\nworkers = "
           "2\nrest = \"keep\"\n"
           "[model]\nname = \"resnet18\"\n",
           {"data.path=" + folder.path(), "data.test_path=" + folder.path()}));
}

TEST(ClassifyData, SharesOfABatchComeToTheWhole) {
  const tests::Folder folder;
  const ClassifyData data = data_in(folder);
  for (const auto& shares : tests::all_shares())
    for (const Share& share : shares) {
      const ImageBatches whole = data.train(), own = data.train();
      ASSERT_TRUE(own->share(share));
      for (int i = 0; i < 5; ++i) {  // into the third epoch
        const auto all = whole->next(), made = own->next();
        tests::expect_portion(all.value(), made.value(), own->portion(), share);
        EXPECT_EQ(own->position(), whole->position());
      }
    }
}

/// The files are gone, and none is missed until the share has rows.
TEST(ClassifyData, AShareWithoutRowsReadsNoFile) {
  const tests::Folder folder;
  const ClassifyData data = data_in(folder);
  fs::remove_all(folder.path("cat"));
  const ImageBatches none = data.train();
  ASSERT_TRUE(none->share({4, 2, 2}));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(none->next().has_value());
  EXPECT_EQ(none->position(), (Position{2, 1}));
  ASSERT_TRUE(none->share({4, 2, 3}));
  EXPECT_THROW(none->next(), IoError);
}

}  // namespace classify_data_test
}  // namespace lockstep::apps
