#include "osprey/data/coco.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "osprey/base/error.h"
#include "picture_finder.h"
#include "split_index.h"
#include "text_lines.h"

namespace osprey::data {
namespace {
namespace fs = std::filesystem;

constexpr int64_t kNone = std::numeric_limits<int64_t>::min();

struct Image {
  int64_t id = kNone, width = 0, height = 0;
  std::string file_name;
};
struct Annotation {
  int64_t image_id = kNone, category_id = kNone;
  std::array<double, 4> xywh{};
  int box_numbers = 0;
  double area = 0;
  bool is_crowd = false;
};
struct Category {
  int64_t id = kNone;
  std::string name;
};
struct Contents {
  std::vector<Image> images;
  std::vector<Annotation> annotations;
  std::vector<Category> categories;
};

// Keeps of the stream what is needed. Depth 1 is the file's object, 2 one of its lists, 3 an element of the list.
class Handler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  Contents contents;
  std::string error;

  bool null() override { return true; }
  bool boolean(bool value) override { return number(value ? 1 : 0); }
  bool number_integer(number_integer_t value) override { return number(static_cast<double>(value), value); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<number_unsigned_t>(std::numeric_limits<int64_t>::max()))
      return number(static_cast<double>(value));
    return number(static_cast<double>(value), static_cast<int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool string(string_t& value) override {
    if (depth_ != 3) return true;
    if (list_ == "images" && key_ == "file_name") image_.file_name = value;
    if (list_ == "categories" && key_ == "name") category_.name = value;
    // Some exporters write ids as text.
    if (key_ == "id" || key_ == "image_id" || key_ == "category_id") {
      char* end = nullptr;
      const int64_t id = std::strtoll(value.c_str(), &end, 10);
      if (end != value.c_str() && *end == '\0') return number(static_cast<double>(id), id);
    }
    return true;
  }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    if (++depth_ == 3) {
      image_ = {};
      annotation_ = {};
      category_ = {};
    }
    return true;
  }
  bool key(string_t& value) override {
    if (depth_ == 1) list_ = value;
    if (depth_ == 3) key_ = value;
    return true;
  }
  bool end_object() override {
    if (depth_-- != 3) return true;
    if (list_ == "images") contents.images.push_back(std::move(image_));
    if (list_ == "annotations") contents.annotations.push_back(annotation_);
    if (list_ == "categories") contents.categories.push_back(std::move(category_));
    return true;
  }
  bool start_array(std::size_t) override {
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& exception) override {
    error = fmt::format("is not valid JSON at byte {}: {}", position, exception.what());
    return false;
  }

 private:
  bool number(double value) {
    constexpr double kLargest = 9e15;  // up to here a double tells whole numbers apart
    const bool is_whole = value == std::floor(value) && std::abs(value) <= kLargest;
    return number(value, is_whole ? static_cast<int64_t>(value) : kNone);
  }
  /// whole  kNone: it is none
  bool number(double value, int64_t whole) {
    if (depth_ == 4 && list_ == "annotations" && key_ == "bbox") {
      if (annotation_.box_numbers < 4) annotation_.xywh[static_cast<size_t>(annotation_.box_numbers)] = value;
      ++annotation_.box_numbers;
    }
    if (depth_ != 3) return true;
    if (int64_t* const field = whole_field()) {
      if (whole == kNone) return refuse(value);
      *field = whole;
    } else if (list_ == "annotations") {
      if (key_ == "area") annotation_.area = value;
      if (key_ == "iscrowd") annotation_.is_crowd = value != 0;
    }
    return true;
  }

  /// Where the value that is read now goes, if it has to be a whole number; else null.
  int64_t* whole_field() {
    if (list_ == "images") {
      if (key_ == "id") return &image_.id;
      if (key_ == "width") return &image_.width;
      if (key_ == "height") return &image_.height;
    } else if (list_ == "annotations") {
      if (key_ == "image_id") return &annotation_.image_id;
      if (key_ == "category_id") return &annotation_.category_id;
    } else if (list_ == "categories" && key_ == "id") {
      return &category_.id;
    }
    return nullptr;
  }

  bool refuse(double value) {
    const size_t index = list_ == "images"        ? contents.images.size()
                         : list_ == "annotations" ? contents.annotations.size()
                                                  : contents.categories.size();
    error = fmt::format("{}[{}]: {} must be a whole number, found {}", list_, index, key_, value);
    return false;
  }

  int depth_ = 0;
  std::string list_, key_;
  Image image_;
  Annotation annotation_;
  Category category_;
};

Contents parse(const std::string& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored))
    throw DataError(file + ": is a folder; the input of this format is a JSON file of instances");
  std::ifstream in(file, std::ios::binary);
  if (!in) throw DataError(fmt::format("{}: cannot open: {}", file, std::strerror(errno)));
  Handler handler;
  if (!nlohmann::json::sax_parse(in, &handler)) throw DataError(fmt::format("{}: {}", file, handler.error));
  if (handler.contents.images.empty()) throw DataError(file + ": has no \"images\"; is it a COCO instances file?");
  return std::move(handler.contents);
}

// What a file may be called after: "instances_val2017.json" has pictures of val2017.
std::vector<std::string> subsets_of(const std::string& file) {
  const std::string stem = fs::path(file).stem().string();
  std::vector<std::string> result;
  for (const char* prefix : {"instances_", "person_keypoints_", "image_info_"})
    if (stem.starts_with(prefix)) result.push_back(stem.substr(std::string_view(prefix).size()));
  result.push_back(stem);
  return result;
}

class Coco final : public AnnotationSource {
 public:
  Coco(CocoOptions options, Problems& problems)
      : options_(std::move(options)), pictures_(options_.input, options_.image_dir, subsets_of(options_.input)) {
    Contents contents = parse(options_.input);
    categories_ = std::move(contents.categories);
    for (const Category& category : categories_)
      if (const auto [known, is_new] = names_.emplace(category.id, category.name);
          !is_new && known->second != category.name)
        throw DataError(fmt::format("{}: categories: id {} is both '{}' and '{}'", options_.input, category.id,
                                    known->second, category.name));
    add_images(std::move(contents.images), problems);
    add_annotations(contents.annotations, problems);
    order_.resize(images_.size());
    for (size_t i = 0; i < order_.size(); ++i) order_[i] = static_cast<int64_t>(i);
    if (options_.split.empty()) return;
    std::vector<std::vector<std::string>> names;
    for (const Image& image : images_) {
      names.push_back(names_of_file(slashed(image.file_name)));
      names.back().push_back(image.file_name);
      names.back().push_back(std::to_string(image.id));
    }
    order_ = select_split(options_.split, names, problems);
  }

  int64_t size() const override { return static_cast<int64_t>(order_.size()); }

  bool read(int64_t index, AnnotatedImage& result, Problems& problems) const override {
    const auto at = static_cast<size_t>(order_.at(static_cast<size_t>(index)));
    const Image& image = images_[at];
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
    std::map<int64_t, std::string> by_id;
    for (const Category& category : categories_)
      if (!category.name.empty() && (category.id != 0 || used_.count(0) > 0)) by_id.emplace(category.id, category.name);
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
  void add_images(std::vector<Image> images, Problems& problems) {
    for (Image& image : images) {
      if (image.id == kNone || image.file_name.empty()) {
        problems.add("image(s) left out, having no id or no file_name",
                     image.file_name.empty() ? fmt::format("id {}", image.id) : image.file_name);
      } else if (!index_of_.emplace(image.id, images_.size()).second) {
        problems.add("image(s) left out, having the id of another",
                     fmt::format("{} (id {})", image.file_name, image.id));
      } else {
        images_.push_back(std::move(image));
      }
    }
    objects_.resize(images_.size());
    for (const Image& image : images_) pictures_.expect(image.file_name);
  }

  void add_annotations(const std::vector<Annotation>& annotations, Problems& problems) {
    for (size_t i = 0; i < annotations.size(); ++i) {
      const Annotation& annotation = annotations[i];
      const auto image = index_of_.find(annotation.image_id);
      const auto name = names_.find(annotation.category_id);
      const std::string place = fmt::format("annotation {} of image {}", i, annotation.image_id);
      if (image == index_of_.end()) {
        problems.add("annotation(s) left out, belonging to no image", place);
      } else if (name == names_.end()) {
        problems.add("annotation(s) left out, being of an unknown category",
                     fmt::format("{}: category_id {}", place, annotation.category_id));
      } else if (name->second.empty()) {
        problems.add("object(s) left out, being of a category without a name",
                     fmt::format("{}: category_id {}", place, annotation.category_id));
      } else if (annotation.box_numbers != 4) {
        problems.add("object(s) left out, having no box", place);
      } else {
        const auto [x, y, w, h] = annotation.xywh;
        AnnotatedObject object;
        object.name = name->second;
        object.box_px = {static_cast<float>(y), static_cast<float>(x), static_cast<float>(y + h),
                         static_cast<float>(x + w)};
        object.area_px = static_cast<float>(annotation.area);
        object.is_crowd = annotation.is_crowd;
        objects_[image->second].push_back(std::move(object));
        used_.insert(annotation.category_id);
      }
    }
  }

  CocoOptions options_;
  PictureFinder pictures_;
  std::vector<Category> categories_;
  std::unordered_map<int64_t, std::string> names_;
  std::unordered_set<int64_t> used_;  // categories with objects
  std::vector<Image> images_;
  std::unordered_map<int64_t, size_t> index_of_;
  std::vector<std::vector<AnnotatedObject>> objects_;
  std::vector<int64_t> order_;
};

}  // namespace

std::unique_ptr<AnnotationSource> open_coco(const CocoOptions& options, Problems& problems) {
  return std::make_unique<Coco>(options, problems);
}

}  // namespace osprey::data
