#include <lockstep/error.h>
#include <lockstep/manifest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "lockstep checkpoint";
constexpr std::int64_t kVersion = 1;
// These have what programs that know only the versions before would pass over.
constexpr std::int64_t kOfParameters = 2;
constexpr std::int64_t kOlderVersions = 3;

/// JSON has no NaN: null stands for it.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json to_json(const LastDone& mark) {
  return {{"step", mark.step}, {"epoch", mark.epoch}, {"seconds", mark.seconds}};
}

Json to_json(const Metrics& means) {
  Json json = Json::object();
  for (const auto& [name, mean] : means)
    json[name] = {{"sum", number(mean.sum)}, {"weight", number(mean.weight)}};
  return json;
}

Json to_json(const StepWindow& window) {
  Json json = {{"steps", window.steps},
               {"told", window.told},
               {"clipped", window.clipped},
               {"loss_sum", number(window.loss_sum)},
               {"weight", number(window.weight)},
               {"learning_rate", number(window.learning_rate)},
               {"gradient_norm", number(window.gradient_norm)}};
  if (!window.losses.empty()) json["losses"] = to_json(window.losses);
  if (!window.metrics.empty()) json["metrics"] = to_json(window.metrics);
  for (const auto& [late, steps] : window.staleness.steps)
    json["staleness"].push_back({late, steps});
  return json;
}

Json to_json(const TrainingProgress& progress) {
  Json recent = Json::array();
  for (const double loss : progress.schedule.recent) recent.push_back(number(loss));
  return {{"step", progress.step},
          {"rows", progress.rows ? Json(*progress.rows) : Json(nullptr)},
          {"seconds", progress.seconds},
          {"input", progress.input},
          {"schedule", {{"decays", progress.schedule.decays}, {"recent", recent}}},
          {"window", to_json(progress.window)},
          {"evaluated", to_json(progress.evaluated)},
          {"saved", to_json(progress.saved)},
          {"best", number(progress.best)},
          {"best_step", progress.best_step},
          {"stale", progress.stale}};
}

/// An object of the manifest, read field by field; errors name the field.
class Reader {
 public:
  Reader(const std::string& path, const Json& object, std::string name)
      : path_(path), object_(object), name_(std::move(name)) {
    if (!object.is_object()) fail("an object");
  }

  Reader object(const char* key) const { return {path_, at(key), name_ + "." + key}; }

  std::int64_t integer(const char* key,
                       std::int64_t most = std::numeric_limits<std::int64_t>::max()) const {
    const Json& value = at(key);
    if (!value.is_number_integer() ||
        (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t(most)))
      fail("a whole number", key);
    const auto result = value.get<std::int64_t>();
    if (result < 0 || result > most) fail("a whole number, not negative", key);
    return result;
  }

  std::uint64_t unsigned_integer(const char* key) const {
    const Json& value = at(key);
    if (!value.is_number_integer() || (!value.is_number_unsigned() && value < 0))
      fail("a whole number, not negative", key);
    return value.get<std::uint64_t>();
  }

  bool has(const char* key) const { return object_.contains(key); }

  double real(const char* key) const { return real(at(key), key); }

  double real(const Json& value, const std::string& key) const {
    if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
    if (!value.is_number()) fail("a number", key);
    return value.get<double>();
  }

  std::string text(const char* key) const {
    const Json& value = at(key);
    if (!value.is_string()) fail("a text", key);
    return value.get<std::string>();
  }

  const Json& array(const char* key) const {
    const Json& value = at(key);
    if (!value.is_array()) fail("an array", key);
    return value;
  }

  const Json& at(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) fail("to be there", key);
    return *found;
  }

  [[noreturn]] void fail(const std::string& expected, const std::string& key = "") const {
    throw CorruptFile(path_, 0,
                      "the field '" + name_ + (key.empty() ? "" : "." + key) + "': " + expected);
  }

 private:
  const std::string& path_;
  const Json& object_;
  const std::string name_;
};

LastDone read_mark(const Reader& reader) {
  return {reader.integer("step"), reader.integer("epoch"), reader.real("seconds")};
}

Metrics read_means(const Reader& parent, const char* key) {
  Metrics means;
  if (!parent.has(key)) return means;
  const Reader reader = parent.object(key);
  for (const auto& [name, value] : parent.at(key).items()) {
    const Reader mean = reader.object(name.c_str());
    means[name] = {mean.real("sum"), mean.real("weight")};
  }
  return means;
}

Staleness read_staleness(const Reader& window) {
  Staleness staleness;
  if (!window.has("staleness")) return staleness;
  for (const Json& pair : window.array("staleness")) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_unsigned() ||
        !pair[1].is_number_unsigned())
      window.fail("pairs of whole numbers, not negative", "staleness");
    staleness.steps[pair[0].get<std::int64_t>()] = pair[1].get<std::int64_t>();
  }
  return staleness;
}

TrainingProgress read_progress(const Reader& reader) {
  TrainingProgress progress{.step = reader.integer("step"),
                            .seconds = reader.real("seconds"),
                            .evaluated = read_mark(reader.object("evaluated")),
                            .saved = read_mark(reader.object("saved")),
                            .best = reader.real("best"),
                            .best_step = reader.integer("best_step"),
                            .stale = reader.integer("stale")};
  if (reader.at("rows").is_null())
    progress.rows.reset();
  else
    progress.rows = reader.integer("rows");
  for (const Json& value : reader.array("input")) {
    if (!value.is_number_integer()) reader.fail("whole numbers", "input");
    progress.input.push_back(value.get<std::int64_t>());
  }
  const Reader schedule = reader.object("schedule");
  progress.schedule.decays = schedule.integer("decays");
  for (const Json& value : schedule.array("recent"))
    progress.schedule.recent.push_back(schedule.real(value, "recent"));
  const Reader window = reader.object("window");
  // Older manifests have neither `told` nor the figures of the last step.
  const auto if_there = [&](const char* key) {
    return window.has(key) ? window.real(key) : std::numeric_limits<double>::quiet_NaN();
  };
  progress.window = {.steps = window.integer("steps"),
                     .told = window.integer(window.has("told") ? "told" : "steps"),
                     .clipped = window.integer("clipped"),
                     .loss_sum = window.real("loss_sum"),
                     .weight = window.real("weight"),
                     .learning_rate = if_there("learning_rate"),
                     .gradient_norm = if_there("gradient_norm"),
                     .losses = read_means(window, "losses"),
                     .metrics = read_means(window, "metrics"),
                     .staleness = read_staleness(window)};
  return progress;
}

ManifestFile read_file(const Reader& reader) {
  ManifestFile file{.name = reader.text("name"),
                    .holds = reader.text("holds"),
                    .bytes = reader.unsigned_integer("bytes"),
                    .sha256 = reader.text("sha256")};
  if (file.name.empty() || file.name == "." || file.name == ".." ||
      file.name.find_first_of(std::string("/\0", 2)) != std::string::npos)
    reader.fail("a plain file name", "name");
  static const std::set<std::string> kinds = {"weights", "slots", "averages", "older", "file"};
  if (!kinds.contains(file.holds)) reader.fail("weights, slots, averages, older or file", "holds");
  if (file.holds == "older") file.loss_scale = reader.real("loss_scale");
  if (file.sha256.size() != 64 ||
      file.sha256.find_first_not_of("0123456789abcdef") != std::string::npos)
    reader.fail("64 hexadecimal digits", "sha256");
  return file;
}

Json parse(const std::string& path, const std::string& text) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw CorruptFile(path, error.byte, "JSON");
  } catch (const Json::exception&) {
    throw CorruptFile(path, 0, "JSON with numbers that fit");
  }
}

}  // namespace

std::vector<FieldChange> changes(const Manifest& manifest, const Method& method) {
  auto before = manifest.method, now = fields_of(method);
  if (before.empty()) now.clear();
  before["seed"] = std::to_string(manifest.seed);
  before["shards"] = std::to_string(manifest.shards);
  now["seed"] = std::to_string(method.seed);
  now["shards"] = std::to_string(method.shards);
  return changes(before, now);
}

std::string to_json(const Manifest& manifest) {
  Json files = Json::array();
  std::int64_t version = kVersion;
  if (!manifest.updates_of.empty() || !manifest.held.empty() || !manifest.changed.empty())
    version = kOfParameters;
  for (const ManifestFile& file : manifest.files) {
    files.push_back({{"name", file.name},
                     {"holds", file.holds},
                     {"bytes", file.bytes},
                     {"sha256", file.sha256}});
    if (file.holds != "older") continue;
    files.back()["loss_scale"] = file.loss_scale;
    version = kOlderVersions;
  }
  Json metrics = Json::object();
  for (const auto& [name, value] : manifest.metrics) metrics[name] = number(value);
  Json json = {{"format", kFormat},
               {"version", version},
               {"progress", to_json(manifest.progress)},
               {"updates", manifest.updates},
               {"loss_scale", manifest.loss_scale},
               {"good_steps", manifest.good_steps},
               {"seed", manifest.seed},
               {"shards", manifest.shards},
               {"method", manifest.method},
               {"time", manifest.time},
               {"metrics", metrics},
               {"recipe", manifest.recipe},
               {"lockstep", manifest.lockstep_version},
               {"torch", manifest.torch_version},
               {"files", files}};
  if (!manifest.updates_of.empty()) json["updates_of"] = manifest.updates_of;
  if (!manifest.held.empty()) json["held"] = manifest.held;
  if (!manifest.changed.empty()) json["changed"] = manifest.changed;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Manifest parse_manifest(const std::string& path, const std::string& text) {
  const Json json = parse(path, text);
  const Reader reader(path, json, "manifest");
  if (reader.text("format") != kFormat) reader.fail(kFormat, "format");
  const std::int64_t version = reader.integer("version");
  if (version < kVersion || version > kOlderVersions)
    reader.fail("1 to 3: a newer Lockstep wrote it, read it with that", "version");
  Manifest manifest{.updates = reader.integer("updates"),
                    .loss_scale = reader.real("loss_scale"),
                    .good_steps = reader.integer("good_steps"),
                    .progress = read_progress(reader.object("progress")),
                    .seed = reader.unsigned_integer("seed"),
                    .shards = static_cast<int>(reader.integer("shards", 1 << 20)),
                    .time = reader.integer("time"),
                    .recipe = reader.text("recipe"),
                    .lockstep_version = reader.text("lockstep"),
                    .torch_version = reader.text("torch")};
  if (reader.has("method")) {  // older manifests have none
    const Json& method = reader.at("method");
    if (!method.is_object()) reader.fail("an object", "method");
    for (const auto& [name, value] : method.items()) {
      if (!value.is_string()) reader.fail("a text", "method." + name);
      manifest.method[name] = value.get<std::string>();
    }
  }
  if (reader.has("updates_of")) {
    const Reader updates_of = reader.object("updates_of");
    for (const auto& [name, value] : reader.at("updates_of").items())
      manifest.updates_of[name] = updates_of.integer(name.c_str());
  }
  if (reader.has("changed")) {
    const Reader changed = reader.object("changed");
    for (const auto& [name, value] : reader.at("changed").items())
      manifest.changed[name] = changed.text(name.c_str());
  }
  if (reader.has("held"))
    for (const Json& name : reader.array("held")) {
      if (!name.is_string()) reader.fail("names", "held");
      manifest.held.push_back(name.get<std::string>());
    }
  const Json& metrics = reader.at("metrics");
  if (!metrics.is_object()) reader.fail("an object", "metrics");
  for (const auto& [name, value] : metrics.items())
    manifest.metrics[name] = reader.real(value, "metrics." + name);
  for (const Json& file : reader.array("files"))
    manifest.files.push_back(read_file(Reader(path, file, "manifest.files")));
  return manifest;
}

}  // namespace lockstep
