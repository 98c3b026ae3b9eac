#include "guess_recipe.h"

#include <lockstep/error.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;

/// A TOML text, with what TOML wants escaped.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') result += '\\';
    result += letter;
  }
  return result + "\"";
}

std::string ending_of(const fs::path& path) {
  std::string ending = path.extension().string();
  for (char& letter : ending)
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return ending;
}

bool is_image(const fs::path& path) {
  const std::string ending = ending_of(path);
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

/// Whether a folder has something that `wanted` accepts, in itself.
template <class Wanted>
bool has(const fs::path& folder, const Wanted& wanted) {
  std::error_code unreadable;
  return std::ranges::any_of(fs::directory_iterator(folder, unreadable),
                             [&](const auto& entry) { return wanted(entry.path()); });
}

/// Sub-folders with images in them.
std::size_t classes_in(const fs::path& folder) {
  std::error_code unreadable;
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(folder, unreadable))
    if (entry.is_directory() && has(entry.path(), is_image)) ++count;
  return count;
}

constexpr const char* kClassifier =
    "\n[model]\nname = \"resnet18\"          # convnet or resnet20 for images below 64 pixels\n"
    "\n[optimizer]\nname = \"adamw\"\nlr = 0.001\nweight_decay = 0.01\naverage = 0.99\n"
    "average_warm_up = true\n"
    "\n[schedule]\nname = \"cosine\"\n\n[train]\nepochs = 20\n\n[evaluate]\naveraged = true\n";

std::optional<GuessedRecipe> image_folder(const fs::path& path) {
  constexpr std::array<const char*, 4> kTests = {"test", "val", "valid", "validation"};
  const bool split = fs::is_directory(path / "train") && classes_in(path / "train") > 0;
  const std::size_t classes = classes_in(split ? path / "train" : path);
  if (classes < 2) return std::nullopt;
  std::string test = "held_out = 0.1            # share of the images to evaluate on\n";
  if (split)
    for (const char* name : kTests)
      if (classes_in(path / name) > 0) {
        test = "test_path = " + quoted((path / name).string()) + "\n";
        break;
      }
  return GuessedRecipe{
      "images in " + std::to_string(classes) + " classes",
      "family = \"classify\"\n\n[data]\nkind = \"folder\"\npath = " +
          quoted((split ? path / "train" : path).string()) + "\n" + test +
          "size = 224                # width and height that the model sees, in pixels\n"
          "batch = 32\ntest_batch = 100\n" +
          kClassifier};
}

std::optional<GuessedRecipe> known_images(const fs::path& path) {
  const auto of_kind = [&](const std::string& kind, const std::string& model) {
    return "family = \"classify\"\n\n[data]\nkind = \"" + kind +
           "\"\npath = " + quoted(path.string()) + "\nbatch = 128\n\n[model]\nname = \"" + model +
           "\"\n\n[optimizer]\nname = \"adam\"\nlr = 0.001\n\n[train]\nepochs = 10\n";
  };
  const auto is_idx = [](const fs::path& file) {
    return file.filename().string().starts_with("train-images-idx3-ubyte");
  };
  if (has(path, is_idx))
    return GuessedRecipe{"images in IDX files", of_kind("fashion_mnist", "convnet")};
  if (fs::exists(path / "data_batch_1.bin"))
    return GuessedRecipe{"CIFAR-10's files", of_kind("cifar10", "resnet20")};
  return std::nullopt;
}

std::string detector(const std::string& data) {
  return "family = \"detect\"\n\n[data]\n" + data +
         "batch = 16\ntest_batch = 16\n\n[detector]\nbackbone = \"mobilenet_v2\"\nsize = 300\n"
         "\n[init]\n# weights = \"mobilenet_v2\"   # after scripts/setup --scenes: learns much "
         "faster\n"
         "\n[optimizer]\nname = \"momentum\"\nlr = 0.01\nmomentum = 0.9\nweight_decay = 4e-5\n"
         "decay_biases_and_norms = false\naverage = 0.99\naverage_warm_up = true\n"
         "\n[schedule]\nname = \"cosine\"\nwarm_up = 100\n"
         "\n[train]\nepochs = 30\n\n[evaluate]\nevery_epochs = 5\naveraged = true\n";
}

std::optional<GuessedRecipe> boxes(const fs::path& path) {
  const std::string held = "held_out = 0.1            # share of the pictures to evaluate on\n";
  const auto of_kind = [&](const std::string& kind, const fs::path& data, const std::string& more) {
    return detector("kind = \"" + kind + "\"\npath = " + quoted(data.string()) + "\n" + more);
  };
  if (fs::is_directory(path / "Annotations"))
    return GuessedRecipe{"pictures with VOC's boxes", of_kind("voc", path, held)};
  if (fs::is_regular_file(path / "data.yaml"))
    return GuessedRecipe{"pictures with YOLO's boxes", of_kind("yolo", path / "data.yaml", "")};
  if (ending_of(path) == ".yaml" && fs::is_regular_file(path))
    return GuessedRecipe{"pictures with YOLO's boxes", of_kind("yolo", path, "")};
  if (ending_of(path) == ".json" && fs::is_regular_file(path))
    return GuessedRecipe{"pictures with COCO's boxes", of_kind("coco", path, held)};
  return std::nullopt;
}

std::string texts(const std::string& data) {
  return "family = \"seq2seq\"\n\n[data]\n" + data +
         "batch = 64\ntest_batch = 128\n"
         "\n[text]\nheld_out = 0.02           # share of the pairs to evaluate on\n"
         "vocabulary = 8000\n"
         "\n[seq2seq]\nlayers = 1\nhidden = 320\nembedding = 192\nbidirectional = true\nkeep = "
         "0.8\n"
         "\n[decode]\nmax_length = 60\ntested = 500\n"
         "\n[optimizer]\nname = \"adam\"\nlr = 0.004\nclip = 5\naverage = 0.999\n"
         "average_warm_up = true\n"
         "\n[schedule]\nname = \"cosine\"\nwarm_up = 300\n\n[train]\nepochs = 5\n"
         "\n[evaluate]\naveraged = true\nmetric = \"bleu\"\n";
}

bool has_tabs(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  for (int i = 0; i < 20 && std::getline(file, line); ++i)
    if (line.find('\t') != line.npos) return true;
  return false;
}

std::optional<GuessedRecipe> pairs(const fs::path& path) {
  const auto ends = [](const char* ending) {
    return [=](const fs::path& file) { return ending_of(file) == ending; };
  };
  const auto of_kind = [&](const std::string& kind) {
    return texts("kind = \"" + kind + "\"\npath = " + quoted(path.string()) + "\n");
  };
  if (fs::is_regular_file(path) && has_tabs(path))
    return GuessedRecipe{"lines of source, tab and target", of_kind("tsv")};
  if (fs::is_directory(path) && has(path, ends(".mo")))
    return GuessedRecipe{"gettext's catalogues", of_kind("gettext")};
  if (fs::is_directory(path) && (has(path, ends(".yml"))))
    return GuessedRecipe{"conversations as YAML", of_kind("chatterbot")};
  return std::nullopt;
}

}  // namespace

GuessedRecipe guess_recipe(const std::vector<std::string>& paths) {
  for (const std::string& path : paths)
    if (!fs::exists(path)) throw ConfigError("there is no file or folder '" + path + "'.");
  if (paths.size() == 2)
    return {"two files of texts, line by line",
            texts("kind = \"parallel\"\npath = " + quoted(paths[0]) +
                  "\ntarget_path = " + quoted(paths[1]) + "\n")};
  const fs::path path = fs::path(paths.front()).lexically_normal();
  for (const auto& guess : {boxes, known_images, image_folder, pairs})
    if (auto guessed = guess(path)) return std::move(*guessed);
  throw ConfigError(
      "'" + paths.front() +
      "' is nothing that init knows. It knows: a folder with one folder of JPEG or PNG images for "
      "each class (or with train and test folders of that kind); MNIST's IDX or CIFAR-10's files; "
      "pictures with boxes (VOC's folder, YOLO's data.yaml, COCO's JSON file); texts as lines of "
      "source, tab and target, or two files line by line; gettext's and chatterbot's folders.");
}

}  // namespace lockstep::apps
