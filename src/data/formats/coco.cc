#include "osprey/data/coco.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "coco_contents.h"
#include "data/text_lines.h"
#include "double_names.h"
#include "osprey/base/error.h"
#include "picture_finder.h"
#include "split_index.h"

namespace osprey::data {
namespace {
namespace fs = std::filesystem;

// What a file may be called after: "instances_val2017.json" has pictures of val2017.
std::vector<std::string> subsets_of(const std::string& file) {
  const std::string stem = fs::path(file).stem().string();
  std::vector<std::string> result;
  for (const char* prefix : {"instances_", "person_keypoints_", "image_info_"})
    if (stem.starts_with(prefix)) result.push_back(stem.substr(std::string_view(prefix).size()));
  result.push_back(stem);
  return result;
}

std::string said(int64_t id) { return id == CocoContents::kNone ? "not given" : std::to_string(id); }

class Coco final : public AnnotationSource {
 public:
  Coco(CocoOptions options, Problems& problems)
      : options_(std::move(options)), pictures_(options_.input, options_.image_dir, subsets_of(options_.input)) {
    CocoContents contents = read_coco_contents(options_.input);
    categories_ = std::move(contents.categories);
    for (const CocoContents::Category& category : categories_)
      if (const auto [known, is_new] = names_.emplace(category.id, category.name);
          !is_new && known->second != category.name)
        throw DataError(fmt::format("{}: categories: id {} is both '{}' and '{}'", options_.input, category.id,
                                    known->second, category.name));
    add_images(std::move(contents.images), problems);
    add_annotations(contents.annotations, problems);
    count_double_names(names_by_id(), options_.input, problems);
    order_.resize(images_.size());
    for (size_t i = 0; i < order_.size(); ++i) order_[i] = static_cast<int64_t>(i);
    if (options_.split.empty()) return;
    std::vector<std::vector<std::string>> names;
    for (const CocoContents::Image& image : images_) {
      names.push_back(names_of_file(slashed(image.file_name)));
      names.back().push_back(image.file_name);
      names.back().push_back(std::to_string(image.id));
    }
    order_ = select_split(options_.split, names, problems);
  }

  int64_t size() const override { return static_cast<int64_t>(order_.size()); }

  bool read(int64_t index, AnnotatedImage& result, Problems& problems) const override {
    const auto at = static_cast<size_t>(order_.at(static_cast<size_t>(index)));
    const CocoContents::Image& image = images_[at];
    result.source_id = std::to_string(image.id);
    result.file_name = image.file_name;
    result.width = std::max<int64_t>(image.width, 0);
    result.height = std::max<int64_t>(image.height, 0);
    result.path = pictures_.find(image.file_name, problems);
    result.objects = objects_[at];
    return true;
  }

  RecordOrigin origin(int64_t index) const override {
    const auto at = static_cast<size_t>(order_.at(static_cast<size_t>(index)));
    return {options_.input, index, -1, images_[at].file_name};
  }

  std::vector<std::pair<int, std::string>> classes() const override {
    const std::map<int64_t, std::string> by_id = names_by_id();
    const bool keep = !by_id.empty() && by_id.begin()->first >= 1 &&
                      by_id.rbegin()->first <= 2 * static_cast<int64_t>(by_id.size()) + 10;
    std::vector<std::pair<int, std::string>> result;
    std::unordered_set<std::string> seen;
    for (const auto& [id, name] : by_id)
      if (seen.insert(name).second)
        result.emplace_back(keep ? static_cast<int>(id) : static_cast<int>(result.size()) + 1, name);
    return result;
  }

 private:
  /// Of the categories that a new label map has.
  std::map<int64_t, std::string> names_by_id() const {
    std::map<int64_t, std::string> result;
    for (const CocoContents::Category& category : categories_)
      if (!category.name.empty() && (category.id != 0 || used_.count(0) > 0))
        result.emplace(category.id, category.name);
    return result;
  }

  void add_images(std::vector<CocoContents::Image> images, Problems& problems) {
    for (CocoContents::Image& image : images) {
      if (image.id == CocoContents::kNone || image.file_name.empty()) {
        problems.add("image(s) left out, having no id or no file_name",
                     image.file_name.empty() ? fmt::format("id {}", said(image.id)) : image.file_name);
      } else if (!index_of_.emplace(image.id, images_.size()).second) {
        problems.add("image(s) left out, having the id of another",
                     fmt::format("{} (id {})", image.file_name, image.id));
      } else {
        images_.push_back(std::move(image));
      }
    }
    objects_.resize(images_.size());
    for (const CocoContents::Image& image : images_) pictures_.expect(image.file_name);
  }

  void add_annotations(const std::vector<CocoContents::Annotation>& annotations, Problems& problems) {
    for (size_t i = 0; i < annotations.size(); ++i) {
      const CocoContents::Annotation& annotation = annotations[i];
      const auto image = index_of_.find(annotation.image_id);
      const auto name = names_.find(annotation.category_id);
      const std::string place = fmt::format("annotation {} of image {}", i, said(annotation.image_id));
      const auto [x, y, w, h] = annotation.xywh;
      const Box box{static_cast<float>(y), static_cast<float>(x), static_cast<float>(y + h), static_cast<float>(x + w)};
      if (image == index_of_.end()) {
        problems.add("annotation(s) left out, belonging to no image", place);
      } else if (name == names_.end()) {
        problems.add("annotation(s) left out, being of an unknown category",
                     fmt::format("{}: category_id {}", place, said(annotation.category_id)));
      } else if (name->second.empty()) {
        problems.add("object(s) left out, being of a category without a name",
                     fmt::format("{}: category_id {}", place, said(annotation.category_id)));
      } else if (annotation.box_numbers != 4) {
        problems.add("object(s) left out, having no box", place);
      } else if (!std::isfinite(box.ymin + box.xmin + box.ymax + box.xmax)) {
        problems.add("object(s) left out, their coordinates not being numbers", place);
      } else {
        AnnotatedObject object;
        object.name = name->second;
        object.box_px = box;
        object.area_px = static_cast<float>(annotation.area);
        object.is_crowd = annotation.is_crowd;
        objects_[image->second].push_back(std::move(object));
        used_.insert(annotation.category_id);
      }
    }
  }

  CocoOptions options_;
  PictureFinder pictures_;
  std::vector<CocoContents::Category> categories_;
  std::unordered_map<int64_t, std::string> names_;
  std::unordered_set<int64_t> used_;  // categories with objects
  std::vector<CocoContents::Image> images_;
  std::unordered_map<int64_t, size_t> index_of_;
  std::vector<std::vector<AnnotatedObject>> objects_;
  std::vector<int64_t> order_;
};

}  // namespace

std::unique_ptr<AnnotationSource> open_coco(const CocoOptions& options, Problems& problems) {
  return std::make_unique<Coco>(options, problems);
}

}  // namespace osprey::data
