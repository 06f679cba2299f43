#include "osprey/data/annotations.h"

#include <fmt/format.h>

#include <stdexcept>
#include <unordered_set>

#include "osprey/base/error.h"
#include "osprey/data/coco.h"
#include "osprey/data/csv.h"
#include "osprey/data/cvat.h"
#include "osprey/data/folders.h"
#include "osprey/data/kitti.h"
#include "osprey/data/voc.h"
#include "osprey/data/yolo.h"
#include "text_lines.h"

namespace osprey::data {
namespace {
constexpr int64_t kShownPlaces = 3;
}

void Problems::add(const std::string& kind, const std::string& place) {
  const std::lock_guard lock(mutex_);
  Kind& entry = kinds_[kind];
  if (++entry.count <= kShownPlaces) entry.first.push_back(place);
}

void Problems::add_unusable(const std::string& what, const std::string& why, const std::string& place) {
  const std::string kind = fmt::format("{} left out, {}", what, why);
  add(kind, place);
  const std::lock_guard lock(mutex_);
  kinds_[kind].is_unusable = true;
  if (first_unusable_.empty()) first_unusable_ = fmt::format("{}: {}", why, place);
}

void Problems::add(const Problems& other) {
  const std::scoped_lock lock(mutex_, other.mutex_);
  for (const auto& [kind, added] : other.kinds_) {
    if (added.is_unusable) continue;
    Kind& entry = kinds_[kind];
    entry.count += added.count;
    for (const std::string& place : added.first)
      if (static_cast<int64_t>(entry.first.size()) < kShownPlaces) entry.first.push_back(place);
  }
}

std::string Problems::first_unusable() const {
  const std::lock_guard lock(mutex_);
  return first_unusable_;
}

int64_t Problems::count(const std::string& beginning) const {
  const std::lock_guard lock(mutex_);
  int64_t total = 0;
  for (const auto& [kind, entry] : kinds_)
    if (kind.rfind(beginning, 0) == 0) total += entry.count;
  return total;
}

std::vector<std::string> Problems::lines() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> result;
  for (const auto& [kind, entry] : kinds_)
    result.push_back(fmt::format("{} {}: {}{}", entry.count, kind, fmt::join(entry.first, "; "),
                                 entry.count > static_cast<int64_t>(entry.first.size()) ? "; ..." : ""));
  return result;
}

std::string Problems::after_text() const {
  std::string result;
  for (const std::string& line : lines()) result += "; " + line;
  return result;
}

std::unique_ptr<AnnotationSource> open_annotations(const AnnotationSet& set, Problems& problems) {
  switch (set.format) {
    case AnnotationFormat::kVoc:
      return open_voc({set.input, set.image_dir, set.split}, problems);
    case AnnotationFormat::kCoco:
      return open_coco({set.input, set.image_dir, set.split}, problems);
    case AnnotationFormat::kYolo:
      return open_yolo({set.input, set.image_dir, set.split}, problems);
    case AnnotationFormat::kCsv:
      return open_csv({set.input, set.image_dir, set.split, set.class_descriptions}, problems);
    case AnnotationFormat::kCvat:
      return open_cvat({set.input, set.image_dir, set.split}, problems);
    case AnnotationFormat::kKitti:
      return open_kitti({set.input, set.image_dir, set.split}, problems);
    case AnnotationFormat::kFolders:
      if (!set.image_dir.empty())
        throw ConfigError("image_dir does not go with folders of classes, which hold the pictures");
      return open_folders({set.input, set.split}, problems);
    case AnnotationFormat::kShapes:
      break;
  }
  throw std::logic_error("made-up pictures have no annotation files");
}

config::LabelMap new_label_map(const AnnotationSource& source, const std::string& input, const Problems& problems) {
  config::LabelMap map;
  for (const auto& [id, name] : source.classes()) map.items.push_back({id, name, source.display_name(name)});
  if (map.items.empty())
    throw DataError(input + ": has no objects, so no classes for a label map; give one that exists as label_map" +
                    problems.after_text());
  for (const config::LabelMap::Item& item : map.items)
    for (const std::string& name : {item.name, item.display_name})
      if (!is_utf8(name))
        throw DataError(fmt::format("{}: the class name '{}' is not UTF-8; write it in UTF-8", input, name));
  return map;
}

std::vector<std::string> read_split(const std::string& file) {
  std::vector<std::string> names;
  std::unordered_set<std::string> seen;
  for (const std::string& line : text_lines(file))
    if (std::string name = without_blanks(line); !name.empty() && seen.insert(name).second)
      names.push_back(std::move(name));
  if (names.empty()) throw DataError(file + ": names no pictures");
  return names;
}

}  // namespace osprey::data
