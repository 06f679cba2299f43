#include "yolo_dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "data/text_lines.h"
#include "double_names.h"
#include "osprey/base/error.h"
#include "yaml_file.h"
#include "yolo_paths.h"

namespace osprey::data {
namespace {
namespace fs = std::filesystem;

constexpr const char* kSplits[] = {"train", "val", "valid", "validation", "test"};
constexpr int64_t kMostClasses = 100000;

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// "." of a bare file name.
fs::path folder_of(const fs::path& file) { return file.has_parent_path() ? file.parent_path() : fs::path("."); }

// Nothing where the text is no whole number in 0..kMostClasses.
std::optional<int64_t> small_number(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > kMostClasses)
    return std::nullopt;
  return value;
}

// Returns whether it is there.
bool add_folder(const fs::path& folder, YoloDataset& set) {
  if (!is_folder(folder)) return false;
  fs::path plain = folder.lexically_normal();
  if (!plain.has_filename()) plain = plain.parent_path();  // "set/"
  if (std::find(set.folders.begin(), set.folders.end(), plain.string()) == set.folders.end())
    set.folders.push_back(plain.string());
  return true;
}

[[noreturn]] void refuse_encoding(const std::string& place) {
  throw DataError(place + ": a class name is not UTF-8; save the file as UTF-8");
}

// One name a line; a line in the middle that is empty gives its number no name.
void read_names(const std::string& file, YoloDataset& set) {
  std::vector<std::string> names = text_lines(file);
  for (size_t i = 0; i < names.size(); ++i) {
    if (!is_utf8(names[i])) refuse_encoding(fmt::format("{}:{}", file, i + 1));
    names[i] = without_blanks(names[i]);
  }
  while (!names.empty() && names.back().empty()) names.pop_back();
  if (names.empty()) throw DataError(file + ": has no class names");
  for (size_t i = 0; i < names.size(); ++i) set.labels.names[static_cast<int64_t>(i)] = names[i];
}

void read_names(const YamlFile& yaml, YoloDataset& set, Problems& problems) {
  const std::optional<YamlValue> names = yaml.find("names"), nc = yaml.find("nc");
  const bool has_names = names && (names->kind != YamlValue::Kind::kScalar || !names->text.empty());
  std::optional<int64_t> expected;
  if (nc && !nc->text.empty() && !(expected = small_number(nc->text)))
    throw DataError(fmt::format("{}:{}: nc: '{}' is no number of classes", set.file, nc->line, nc->text));
  if (!has_names && !expected) throw DataError(set.file + ": has neither names nor nc, so no classes");
  if (!has_names) {
    for (int64_t i = 0; i < *expected; ++i) set.labels.names[i] = fmt::format("class_{}", i);
    problems.add("data set(s) without class names; classes are called class_0, class_1, ...", set.file);
    return;
  }
  if (names->kind == YamlValue::Kind::kScalar)
    throw DataError(fmt::format("{}:{}: names: a list, or a map of ids to names, is expected, found '{}'", set.file,
                                names->line, names->text));
  for (const YamlValue::Item& item : names->items) {
    if (!is_utf8(item.text)) refuse_encoding(fmt::format("{}:{}", set.file, item.line));
    const bool is_map = names->kind == YamlValue::Kind::kMap;
    const std::optional<int64_t> id = is_map ? small_number(item.key) : static_cast<int64_t>(set.labels.names.size());
    if (!id)
      throw DataError(
          fmt::format("{}:{}: names: '{}' is no class id in 0..{}", set.file, item.line, item.key, kMostClasses));
    if (!set.labels.names.emplace(*id, item.text).second)
      throw DataError(fmt::format("{}:{}: names: class id {} stands here twice", set.file, item.line, *id));
  }
  if (set.labels.names.empty()) throw DataError(fmt::format("{}:{}: names: is empty", set.file, names->line));
  if (expected && *expected != static_cast<int64_t>(set.labels.names.size()))
    problems.add("number(s) of classes that disagree with the names, which count",
                 fmt::format("{}:{}: nc {}, {} names", set.file, nc->line, *expected, set.labels.names.size()));
}

// kpt_shape: [keypoints, numbers of each]
void read_keypoint_shape(const YamlFile& yaml, YoloDataset& set) {
  const std::optional<YamlValue> shape = yaml.find("kpt_shape");
  if (!shape || (shape->kind == YamlValue::Kind::kScalar && shape->text.empty())) return;
  std::optional<int64_t> points, numbers;
  if (shape->kind == YamlValue::Kind::kList && shape->items.size() == 2) {
    points = small_number(shape->items[0].text);
    numbers = small_number(shape->items[1].text);
  }
  if (!points || !numbers)
    throw DataError(fmt::format("{}:{}: kpt_shape: [points, numbers of each] is expected", set.file, shape->line));
  set.labels.keypoint_numbers = *points * *numbers;
}

YoloDataset from_yaml(const std::string& file, Problems& problems) {
  YoloDataset set;
  set.file = file;
  const YamlFile yaml(file);
  read_names(yaml, set, problems);
  read_keypoint_shape(yaml, set);
  const fs::path beside = folder_of(file);
  if (const auto path = yaml.find("path"); path && !path->text.empty()) {
    const fs::path spelled = slashed(path->text);
    if (!add_folder(beside / spelled, set)) add_folder(spelled, set);
  }
  add_folder(beside, set);
  for (const char* name : kSplits) {
    const std::optional<YamlValue> value = yaml.find(name);
    if (!value) continue;
    YoloDataset::Split split{name, {}, fmt::format("{}:{}", file, value->line)};
    if (value->kind == YamlValue::Kind::kMap)
      throw DataError(fmt::format("{}: {}: a path or a list of paths is expected", split.origin, name));
    if (!value->text.empty()) split.places.push_back(value->text);
    for (const YamlValue::Item& item : value->items) split.places.push_back(item.text);
    if (!split.places.empty()) set.splits.push_back(std::move(split));
  }
  if (set.splits.empty()) throw DataError(file + ": has no train, val or test, so no pictures");
  return set;
}

// Darknet's description: lines of "key = value".
YoloDataset from_darknet(const std::string& file) {
  YoloDataset set;
  set.file = file;
  const fs::path beside = folder_of(file);
  add_folder(beside, set);
  if (beside.filename() == "cfg") add_folder(beside / "..", set);  // where Darknet runs, from which its paths begin
  int number = 0;
  for (const std::string& line : text_lines(file)) {
    ++number;
    const std::string text = without_blanks(line);
    if (text.empty() || text[0] == '#' || text[0] == ';') continue;
    const size_t sign = text.find('=');
    if (sign == std::string::npos) throw DataError(fmt::format("{}:{}: key = value is expected", file, number));
    const std::string key = without_blanks(text.substr(0, sign)), value = without_blanks(text.substr(sign + 1));
    if (key == "names") {
      const std::string names = find_yolo_file(value, set.folders);
      if (names.empty()) throw DataError(fmt::format("{}:{}: names: no such file: {}", file, number, value));
      read_names(names, set);
    } else if (value.ends_with(".txt")) {
      set.splits.push_back({key, {value}, fmt::format("{}:{}", file, number)});
    }
  }
  if (set.labels.names.empty()) throw DataError(file + ": has no names");
  if (set.splits.empty()) throw DataError(file + ": names no list of pictures, such as train = train.txt");
  return set;
}

// A folder that has nothing but a list of class names beside pictures and labels.
YoloDataset from_names(const std::string& file, const fs::path& folder) {
  YoloDataset set;
  set.file = file;
  add_folder(folder, set);
  read_names(file, set);
  const bool may_have_lists = fs::path(file).extension() == ".names";  // beside classes.txt it may be a label file
  for (const std::string name : kSplits) {
    for (const fs::path& place : {fs::path("images") / name, fs::path(name) / "images", fs::path(name)}) {
      if (!is_folder(folder / place)) continue;
      set.splits.push_back({name, {place.string()}, file});
      break;
    }
    if (may_have_lists && (set.splits.empty() || set.splits.back().name != name) && is_file(folder / (name + ".txt")))
      set.splits.push_back({name, {name + ".txt"}, file});
  }
  if (!set.splits.empty()) return set;
  const bool has_list = may_have_lists && is_file(folder / "images.txt");
  set.splits.push_back({"", {has_list ? "images.txt" : is_folder(folder / "images") ? "images" : "."}, file});
  return set;
}

// Files of a folder with one of these endings, in the order of their names.
std::vector<std::string> files_ending(const fs::path& folder, const std::vector<std::string>& endings) {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored))
    if (std::find(endings.begin(), endings.end(), entry.path().extension()) != endings.end() && is_file(entry.path()))
      found.push_back(entry.path().string());
  std::sort(found.begin(), found.end());
  return found;
}

YoloDataset from_file(const std::string& file, Problems& problems) {
  const std::string ending = fs::path(file).extension().string();
  if (ending == ".yaml" || ending == ".yml") return from_yaml(file, problems);
  if (ending == ".data") return from_darknet(file);
  if (ending == ".names") return from_names(file, folder_of(file));
  // Some tools write the names among the labels.
  const fs::path folder = folder_of(file);
  return from_names(file, folder.filename() == "labels" ? folder_of(folder) : folder);
}

YoloDataset found_at(const std::string& input, Problems& problems) {
  const fs::path path(input);
  if (is_file(path)) {
    const std::string ending = path.extension().string();
    if (ending != ".yaml" && ending != ".yml" && ending != ".data" && ending != ".names" &&
        path.filename() != "classes.txt")
      throw DataError(input +
                      ": is no description of a YOLO data set; data.yaml, obj.data, classes.txt, obj.names or a "
                      "folder with one of them is expected");
    return from_file(input, problems);
  }
  if (!is_folder(path)) throw DataError(input + ": no such folder or file");
  for (const char* name : {"data.yaml", "dataset.yaml", "data.yml", "dataset.yml", "obj.data"})
    if (is_file(path / name)) return from_file((path / name).string(), problems);
  for (const std::vector<std::string>& endings : {std::vector<std::string>{".yaml", ".yml"}, {".data"}, {".names"}}) {
    const std::vector<std::string> found = files_ending(path, endings);
    if (found.size() > 1)
      throw DataError(
          fmt::format("{}: has several descriptions; give one of them as --input: {}", input, fmt::join(found, ", ")));
    if (found.size() == 1) return from_file(found[0], problems);
  }
  for (const char* name : {"classes.txt", "labels/classes.txt"})
    if (is_file(path / name)) return from_names((path / name).string(), path);
  throw DataError(input + ": has no data.yaml, dataset.yaml, obj.data, obj.names or classes.txt");
}

}  // namespace

YoloDataset read_yolo_dataset(const std::string& input, Problems& problems) {
  YoloDataset set = found_at(input, problems);
  count_double_names(set.labels.names, set.file, problems);
  return set;
}

bool same_split(const std::string& a, const std::string& b) {
  const auto validates = [](const std::string& name) {
    return name == "val" || name == "valid" || name == "validation";
  };
  return a == b || (validates(a) && validates(b));
}

}  // namespace osprey::data
