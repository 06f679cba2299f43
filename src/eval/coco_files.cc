#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>

#include "eval/coco_reader.h"
#include "osprey/base/error.h"
#include "osprey/eval/coco_metrics.h"

namespace osprey::eval {
namespace {

// A field that an item has to have; the caller adds file, list and index.
template <class T>
const T& need(const std::optional<T>& field, const char* name) {
  if (!field) throw std::runtime_error(fmt::format("\"{}\" is missing", name));
  return *field;
}

std::array<double, 4> need_box(const CocoItem& item) {
  if (!item.has_bbox) throw std::runtime_error("\"bbox\" is missing");
  if (item.bbox.size() != 4)
    throw std::runtime_error(fmt::format("bbox must be [x, y, width, height], found {} numbers", item.bbox.size()));
  for (double v : item.bbox)
    if (!std::isfinite(v)) throw std::runtime_error(fmt::format("bbox holds {}", v));
  return {item.bbox[0], item.bbox[1], item.bbox[2], item.bbox[3]};
}

struct Annotation {
  CocoId image, category;
  CocoImage::Object object;
};

// Ids in order and what they are numbered by.
class Numbering {
 public:
  void add(const CocoId& id) { numbers_.emplace(id, 0); }
  void close() {
    int64_t next = 0;
    for (auto& entry : numbers_) entry.second = next++;
  }
  int64_t at(const CocoId& id) const {
    const auto found = numbers_.find(id);
    return found == numbers_.end() ? -1 : found->second;
  }
  const std::map<CocoId, int64_t>& all() const { return numbers_; }

 private:
  std::map<CocoId, int64_t> numbers_;
};

}  // namespace

CocoFiles read_coco_files(const std::string& ground_truth, const std::string& detections) {
  CocoFiles files;
  Numbering images, categories;
  std::map<CocoId, std::string> names;
  std::vector<Annotation> annotations;
  std::set<CocoId> ids;
  int64_t repeated_ids = 0;
  const std::vector<std::string> lists =
      read_coco_json(ground_truth, [&](const std::string& list, int64_t, const CocoItem& item) {
        if (list.empty())
          throw std::runtime_error(
              "this is a list; expected an object with \"images\", \"annotations\" and \"categories\"");
        if (list == "images") {
          images.add(need(item.id, "id"));
        } else if (list == "categories") {
          const CocoId& id = need(item.id, "id");
          categories.add(id);
          names[id] = item.name ? *item.name : id.str();
        } else {
          Annotation annotation{need(item.image_id, "image_id"), need(item.category_id, "category_id"), {}};
          annotation.object.box_xywh = need_box(item);
          annotation.object.area = item.area ? *item.area : item.bbox[2] * item.bbox[3];
          annotation.object.is_crowd = item.is_crowd && *item.is_crowd != 0;
          annotation.object.id_is_zero = item.id && item.id->is_number && item.id->number == 0;
          if (item.id && !ids.insert(*item.id).second) ++repeated_ids;
          annotations.push_back(std::move(annotation));
        }
      });
  for (const char* list : {"images", "categories", "annotations"})
    if (std::find(lists.begin(), lists.end(), list) == lists.end())
      throw DataError(
          fmt::format("{}: \"{}\" is missing; expected COCO's annotations with images, annotations and categories",
                      ground_truth, list));
  images.close();
  categories.close();

  files.images.resize(images.all().size());
  for (const auto& [id, index] : categories.all())
    files.categories.push_back({id.is_number ? id.number : index + 1, names[id]});
  int64_t homeless = 0, unnamed = 0, zero_ids = 0;
  for (Annotation& annotation : annotations) {
    const int64_t image = images.at(annotation.image);
    annotation.object.category = categories.at(annotation.category);
    if (image < 0)
      ++homeless;
    else if (annotation.object.category < 0)
      ++unnamed;
    else
      files.images[image].objects.push_back(annotation.object);
    zero_ids += annotation.object.id_is_zero ? 1 : 0;
  }
  auto warn = [&](int64_t count, const std::string& what) {
    if (count > 0) files.warnings.push_back(fmt::format("{}: {} {}", ground_truth, count, what));
  };
  warn(homeless, "annotations of images that are not listed were left out");
  warn(unnamed, "annotations of categories that are not listed were left out");
  warn(repeated_ids, "annotations share their id with another; each counts");
  warn(zero_ids,
       "annotation has the id 0: as in pycocotools, the detection that finds it counts as wrong (ids should start at "
       "1)");

  const std::vector<std::string> found =
      read_coco_json(detections, [&](const std::string& list, int64_t, const CocoItem& item) {
        if (!list.empty())
          throw std::runtime_error("expected COCO's results: one list of {image_id, category_id, bbox, score}");
        const CocoId& id = need(item.image_id, "image_id");
        const int64_t image = images.at(id);
        if (image < 0)
          throw std::runtime_error(
              fmt::format("image_id {} is not among the {} images of {}", id.str(), files.images.size(), ground_truth));
        CocoImage::Detection detection{need_box(item), need(item.score, "score"),
                                       categories.at(need(item.category_id, "category_id"))};
        if (std::isnan(detection.score)) throw std::runtime_error("score is not a number");
        ++files.num_detections;
        if (detection.category < 0)
          ++files.num_foreign_detections;
        else
          files.images[image].detections.push_back(detection);
      });
  if (std::find(found.begin(), found.end(), "") == found.end())
    throw DataError(
        fmt::format("{}: expected COCO's results: one list of {{image_id, category_id, bbox, score}}", detections));
  if (files.num_foreign_detections > 0)
    files.warnings.push_back(
        fmt::format("{}: {} of {} detections are of categories that {} does not list; they were left out", detections,
                    files.num_foreign_detections, files.num_detections, ground_truth));
  return files;
}

}  // namespace osprey::eval
