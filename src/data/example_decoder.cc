#include "osprey/data/example_decoder.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <limits>
#include <optional>
#include <utility>

#include "box_check.h"
#include "features.h"
#include "orientation.h"
#include "osprey/base/error.h"
#include "osprey/config/label_map.h"
#include "osprey/data/image_codec.h"
#include "osprey/data/image_resizer.h"

namespace osprey::data {
namespace {

std::vector<uint8_t> flags(std::span<const int64_t> values) {
  std::vector<uint8_t> result;
  result.reserve(values.size());
  for (int64_t value : values) result.push_back(value != 0);
  return result;
}

std::vector<float> list(std::span<const float> values) { return {values.begin(), values.end()}; }

std::vector<Box> read_boxes(const Features& features) {
  const auto ymin = features.floats("image/object/bbox/ymin");
  const auto xmin = features.floats("image/object/bbox/xmin", ymin.size());
  const auto ymax = features.floats("image/object/bbox/ymax", ymin.size());
  const auto xmax = features.floats("image/object/bbox/xmax", ymin.size());
  if (xmin.size() != ymin.size() || ymax.size() != ymin.size() || xmax.size() != ymin.size())
    features.fail("image/object/bbox",
                  fmt::format("lists of different lengths: {} ymin, {} xmin, {} ymax, {} xmax", ymin.size(),
                              xmin.size(), ymax.size(), xmax.size()),
                  BadRecord::Cause::kLengths);
  std::vector<Box> boxes;
  boxes.reserve(ymin.size());
  for (size_t i = 0; i < ymin.size(); ++i) boxes.push_back({ymin[i], xmin[i], ymax[i], xmax[i]});
  return boxes;
}

void read_image(Features& features, const DecoderOptions& options, Example& example, ReadReport& report) {
  std::string encoded = features.take_string("image/encoded");
  try {
    const ImageInfo info = image_info(encoded);
    const Orientation orientation = choose_orientation(info, features.first_int("image/height", 0),
                                                       features.first_int("image/width", 0), options.exif);
    const std::string details =
        fmt::format("EXIF orientation {}, {} x {} pixels", info.orientation, info.width, info.height);
    if (orientation.ambiguous) report.add(ReadReport::Problem::kAmbiguousOrientation, {features.where()}, details);
    if (orientation.applied != 1) report.add(ReadReport::Problem::kRotatedImage, {features.where()}, details);
    const bool swaps = orientation.applied >= 5;
    example.original_height = swaps ? info.width : info.height;
    example.original_width = swaps ? info.height : info.width;
    std::optional<ImageSize> least;
    if (options.reduce_for) {
      least = options.reduce_for->content_size({example.original_height, example.original_width});
      if (swaps) std::swap(least->height, least->width);
    }
    if (options.decode_image)
      example.image = upright(decode_image(encoded, least), orientation.applied);
    else
      example.encoded = std::move(encoded);
  } catch (const BadRecord&) {
    throw;
  } catch (const DataError& error) {
    features.fail("image/encoded", error.what(), BadRecord::Cause::kPicture);
  }
}

at::Tensor read_masks(const Features& features, const DecoderOptions& options, int64_t objects, int64_t height,
                      int64_t width) {
  const std::string key = "image/object/mask";
  if (options.masks == DecoderOptions::Masks::kNumerical) {
    const auto values = features.floats(key);
    if (static_cast<int64_t>(values.size()) != objects * height * width)
      features.fail(key,
                    fmt::format("has {} values, expected {} masks of {} x {}", values.size(), objects, width, height));
    return at::tensor(at::ArrayRef<float>(values.data(), values.size()))
        .reshape({objects, height, width})
        .gt(0)
        .to(at::kFloat);
  }
  const auto pngs = features.strings(key);
  if (static_cast<int64_t>(pngs.size()) != objects)
    features.fail(key, fmt::format("has {} masks for {} boxes", pngs.size(), objects));
  at::Tensor masks = at::zeros({objects, height, width}, at::kFloat);
  for (int64_t i = 0; i < objects; ++i) {
    at::Tensor mask;
    try {
      mask = decode_grey(*pngs[static_cast<size_t>(i)]);
    } catch (const DataError& error) {
      features.fail(key, fmt::format("mask {}: {}", i, error.what()));
    }
    if (mask.size(0) != height || mask.size(1) != width)
      features.fail(key,
                    fmt::format("mask {} is {} x {}, the image {} x {}", i, mask.size(1), mask.size(0), width, height));
    masks[i].copy_(mask.gt(0));
  }
  return masks;
}

/// A score for every class and object, [N, C]; of a record without scores 1 for the class of each object.
at::Tensor read_scores(const Features& features, int64_t num_classes, const Example& example) {
  const std::string key = "image/object/class/multiclass_scores";
  const auto scores = features.floats(key);
  const size_t objects = example.boxes.size();
  if (scores.empty()) {
    const at::Tensor classes = at::tensor(at::ArrayRef<int64_t>(example.classes));
    return classes.unsqueeze(1).eq(at::arange(num_classes)).to(at::kFloat);
  }
  if (scores.size() != objects * static_cast<size_t>(num_classes))
    features.fail(key, fmt::format("has {} values for {} boxes and {} classes", scores.size(), objects, num_classes));
  return at::tensor(at::ArrayRef<float>(scores.data(), scores.size()))
      .reshape({static_cast<int64_t>(objects), num_classes});
}

void read_keypoints(const Features& features, int64_t per_object, Example& example) {
  const auto objects = static_cast<int64_t>(example.boxes.size());
  const auto y = features.floats("image/object/keypoint/y"), x = features.floats("image/object/keypoint/x");
  const auto visibility = features.ints("image/object/keypoint/visibility");
  const auto expected = static_cast<size_t>(objects * per_object);
  if (y.size() != expected || x.size() != expected)
    features.fail("image/object/keypoint", fmt::format("has {} y and {} x for {} boxes with {} keypoints each",
                                                       y.size(), x.size(), objects, per_object));
  example.keypoints = at::full({objects, per_object, 2}, std::numeric_limits<float>::quiet_NaN(), at::kFloat);
  example.keypoint_visibilities = at::zeros({objects, per_object}, at::kBool);
  auto* point = example.keypoints.data_ptr<float>();
  auto* labelled = example.keypoint_visibilities.data_ptr<bool>();
  for (size_t i = 0; i < expected; ++i) {
    // 0 not labelled, 1 labelled but hidden, 2 seen; without the list, whatever has coordinates is seen.
    labelled[i] = visibility.size() == expected ? visibility[i] == 1 || visibility[i] == 2 : x[i] == x[i];
    if (!labelled[i]) continue;
    point[2 * i] = y[i];
    point[2 * i + 1] = x[i];
  }
}

}  // namespace

// Maps what a record says about classes to 0-based indices.
class ExampleDecoder::Classes {
 public:
  Classes(const DecoderOptions& options, const config::LabelMap* map)
      : num_classes_(options.num_classes), allow_unknown_(options.allow_unknown_classes), map_(map) {
    if (map == nullptr) return;
    for (const bool display : {options.use_display_name, !options.use_display_name})
      for (const config::LabelMap::Item& item : map->items) {
        const std::string& text = display ? item.display_name : item.name;
        if (!text.empty()) ids_.emplace(text, item.id);
      }
  }

  std::vector<int64_t> of_objects(const Features& features, size_t objects, ReadReport& report) const {
    const auto labels = features.ints("image/object/class/label", objects);
    const auto texts = features.strings("image/object/class/text", objects);
    if (objects > 0 && labels.empty() && texts.empty())
      features.fail("image/object/class/label", fmt::format("is missing, and so is the text, for {} boxes", objects));
    std::vector<int64_t> classes;
    classes.reserve(objects);
    for (size_t i = 0; i < objects; ++i) {
      const std::string text = texts.empty() ? "" : *texts[i];
      const auto found = ids_.find(text);
      if (!text.empty() && map_ != nullptr && !labels.empty() && (found == ids_.end() || found->second != labels[i]))
        report.add(ReadReport::Problem::kTextDisagrees, {features.where(), static_cast<int64_t>(i)},
                   fmt::format("text '{}', label {}{}", text, labels[i],
                               found == ids_.end() ? ", which was taken: the label map does not have the text" : ""));
      if (found == ids_.end() && labels.empty())
        classes.push_back(refuse_text(features, i, text, report));
      else
        classes.push_back(in_range(features, i, found != ids_.end() ? found->second : labels[i], report));
    }
    return classes;
  }

  // Nothing is asked of these: -1 stands for a class that label map or num_classes do not have.
  std::vector<int64_t> of_image(const Features& features) const {
    std::vector<int64_t> classes;
    for (const std::string* text : features.strings("image/class/text")) {
      const auto found = ids_.find(*text);
      classes.push_back(found == ids_.end() ? -1 : found->second - 1);
    }
    const auto labels = features.ints("image/class/label");
    if (!classes.empty() && (map_ != nullptr || labels.empty())) return classes;
    return zero_based(labels);
  }

  std::vector<int64_t> zero_based(std::span<const int64_t> ids) const {
    std::vector<int64_t> classes;
    for (int64_t id : ids) classes.push_back(known(id) ? id - 1 : -1);
    return classes;
  }

 private:
  bool known(int64_t id) const {
    return id >= 1 && (num_classes_ == 0 || id <= num_classes_) &&
           (map_ == nullptr || (id <= map_->max_id() && map_->find(static_cast<int>(id)) != nullptr));
  }

  std::string table(const std::string& record) const {
    const std::string map = map_ == nullptr
                                ? "none"
                                : fmt::format("ids {} to {} ({})", map_->items.empty() ? 0 : map_->items.front().id,
                                              map_->max_id(), map_->items.size());
    const std::string classes = num_classes_ == 0 ? "not given" : std::to_string(num_classes_);
    return fmt::format("\n  {:<24} {:<14} {}\n  {:<24} {:<14} {}", "label map", "num_classes", "record", map, classes,
                       record);
  }

  // The 0-based class of an id; -1 for an unknown one that is allowed.
  int64_t in_range(const Features& features, size_t box, int64_t id, ReadReport& report) const {
    if (known(id)) return id - 1;
    const char* cause = id < 1                                   ? "ids begin at 1"
                        : num_classes_ != 0 && id > num_classes_ ? "num_classes is smaller"
                                                                 : "the label map does not have it";
    if (allow_unknown_) return unknown(features, box, fmt::format("class id {}: {}", id, cause), report);
    throw ConfigError(fmt::format("{}: image/object/class/label: box {} has class id {}: {}{}", features.where(), box,
                                  id, cause, table(fmt::format("class id {}", id))));
  }

  int64_t refuse_text(const Features& features, size_t box, const std::string& text, ReadReport& report) const {
    const char* cause =
        map_ == nullptr ? "it takes label_map_path to find its id" : "the label map does not have that name";
    if (allow_unknown_) return unknown(features, box, fmt::format("class '{}': {}", text, cause), report);
    throw ConfigError(fmt::format("{}: image/object/class/text: box {} is of class '{}', without a label: {}{}",
                                  features.where(), box, text, cause, table("class '" + text + "'")));
  }

  static int64_t unknown(const Features& features, size_t box, const std::string& details, ReadReport& report) {
    report.add(ReadReport::Problem::kUnknownClass, {features.where(), static_cast<int64_t>(box)}, details);
    return -1;
  }

  int64_t num_classes_;
  bool allow_unknown_;
  const config::LabelMap* map_;
  std::unordered_map<std::string, int64_t> ids_;  // class text -> 1-based id
};

ExampleDecoder::ExampleDecoder(DecoderOptions options, std::shared_ptr<const config::LabelMap> label_map)
    : options_(options),
      label_map_(std::move(label_map)),
      classes_(std::make_unique<Classes>(options_, label_map_.get())) {}

ExampleDecoder::~ExampleDecoder() = default;

Example ExampleDecoder::decode(std::string_view record, const RecordOrigin& origin, ReadReport& report) const {
  Features features(record, origin.describe());
  Example example;
  example.id = features.first_string("image/source_id");
  example.file_name = features.first_string("image/filename");
  features.add_to_where(!example.id.empty() ? fmt::format(": source id '{}'", example.id)
                                            : fmt::format(": file '{}'", example.file_name));
  read_image(features, options_, example, report);
  if (options_.only_picture) return example;

  example.boxes = read_boxes(features);
  const size_t objects = example.boxes.size();
  example.classes = classes_->of_objects(features, objects, report);
  example.weights = list(features.floats("image/object/weight", objects));
  if (example.weights.empty()) example.weights.assign(objects, 1.0f);
  example.is_crowd = flags(features.ints("image/object/is_crowd", objects));
  example.difficult = flags(features.ints("image/object/difficult", objects));
  example.group_of = flags(features.ints("image/object/group_of", objects));
  example.area = list(features.floats("image/object/area", objects));

  if (options_.multiclass_scores) example.multiclass_scores = read_scores(features, options_.num_classes, example);
  if (options_.masks != DecoderOptions::Masks::kNone) {
    example.masks =
        read_masks(features, options_, static_cast<int64_t>(objects), example.original_height, example.original_width);
    example.mask_weights = list(features.floats("image/object/mask/weight", objects));
    if (example.mask_weights.empty()) example.mask_weights.assign(objects, 1.0f);
  }
  if (options_.num_keypoints > 0) read_keypoints(features, options_.num_keypoints, example);

  example.image_classes = classes_->of_image(features);
  example.image_confidences = list(features.floats("image/class/confidence"));
  if (!example.image_confidences.empty() && example.image_confidences.size() != example.image_classes.size())
    features.fail("image/class/confidence",
                  fmt::format("has {} values for {} image labels", example.image_confidences.size(),
                              example.image_classes.size()));
  example.negative_classes = classes_->zero_based(features.ints("image/neg_category_ids"));
  example.not_exhaustive_classes = classes_->zero_based(features.ints("image/not_exhaustive_category_ids"));

  const BoxCheck check{options_.invalid_boxes, example.original_height, example.original_width, features.where()};
  const std::vector<int64_t> kept = check_boxes(example.boxes, check, report);
  if (kept.size() < objects) select(example, kept);
  return example;
}

}  // namespace osprey::data
