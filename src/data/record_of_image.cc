#include "record_of_image.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "osprey/base/error.h"
#include "osprey/data/image_codec.h"
#include "osprey/records/example.pb.h"
#include "text_lines.h"
#include "whole_file.h"

namespace osprey::data {
namespace {

class Builder {
 public:
  void add(const std::string& key, const std::string& value) { feature(key).mutable_bytes_list()->add_value(value); }
  void add(const std::string& key, int64_t value) { feature(key).mutable_int64_list()->add_value(value); }
  void add(const std::string& key, float value) { feature(key).mutable_float_list()->add_value(value); }

  std::string bytes() {
    // Map entries in the order of their keys, so that equal records are equal bytes.
    std::string result;
    google::protobuf::io::StringOutputStream stream(&result);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message_.SerializeToCodedStream(&coded);
    coded.Trim();
    return result;
  }

 private:
  records::Feature& feature(const std::string& key) { return (*message_.mutable_features()->mutable_feature())[key]; }
  records::Example message_;
};

// Reads the picture where its source has not.
bool load(AnnotatedImage& image, Problems& problems) {
  if (!image.encoded.empty()) return true;
  if (image.path.empty()) {
    problems.add_unusable("picture(s)", "not found", image.file_name);
    return false;
  }
  std::optional<std::string> bytes = bytes_of_file(image.path);
  if (!bytes)
    problems.add_unusable("picture(s)", "not readable", fmt::format("{}: {}", image.path, std::strerror(errno)));
  image.encoded = std::move(bytes).value_or("");
  return bytes.has_value();
}

std::string format_of(const ImageInfo& info, const std::string& file_name) {
  if (info.format != "other") return info.format;
  const std::string ending = lower_case(std::filesystem::path(file_name).extension().string());
  return ending.size() > 1 ? ending.substr(1) : info.format;
}

// The size that boxes are measured in: the annotated one, or the picture's where none is given.
void choose_size(const ImageInfo& info, const std::string& place, AnnotatedImage& image, Problems& problems) {
  if (image.height <= 0 || image.width <= 0) {
    image.height = info.height;
    image.width = info.width;
    return;
  }
  const bool turned = info.orientation >= 5 && image.height == info.width && image.width == info.height;
  if (!turned && (image.height != info.height || image.width != info.width))
    problems.add(
        "picture(s) of another size than annotated; boxes are taken as fractions of the annotated size",
        fmt::format("{}: {} x {}, annotated {} x {}", place, info.width, info.height, image.width, image.height));
}

// The box as fractions of the picture, as it is; but of what lies further outside than the picture is large no more
// than that is told, for a decoder takes larger numbers for pixels. Half of that stays between the corners of a box
// that lies outside, so that this is what is said of it.
Box unchecked(const AnnotatedObject& object, const AnnotatedImage& image) {
  const auto low = [](float px, int64_t size) { return std::clamp(px / static_cast<float>(size), -1.0f, 1.5f); };
  const auto high = [](float px, int64_t size) { return std::clamp(px / static_cast<float>(size), -0.5f, 2.0f); };
  const Box& px = object.box_px;
  return {low(px.ymin, image.height), low(px.xmin, image.width), high(px.ymax, image.height),
          high(px.xmax, image.width)};
}

// The same, cut to the picture; nothing, counted, where none is left.
std::optional<Box> normalised(const AnnotatedObject& object, const AnnotatedImage& image, const std::string& place,
                              Problems& problems) {
  const Box& px = object.box_px;
  const std::string values =
      fmt::format("{}: xmin {} ymin {} xmax {} ymax {}", place, px.xmin, px.ymin, px.xmax, px.ymax);
  if (px.ymax < px.ymin || px.xmax < px.xmin) {
    problems.add("box(es) left out, being inverted", values);
    return std::nullopt;
  }
  if (px.ymax == px.ymin || px.xmax == px.xmin) {
    problems.add("box(es) left out, being empty", values);
    return std::nullopt;
  }
  const auto height = static_cast<float>(image.height), width = static_cast<float>(image.width);
  const Box cut{std::clamp(px.ymin, 0.0f, height), std::clamp(px.xmin, 0.0f, width), std::clamp(px.ymax, 0.0f, height),
                std::clamp(px.xmax, 0.0f, width)};
  if (!(cut.height() > 0 && cut.width() > 0)) {
    problems.add("box(es) left out, lying outside the picture", values);
    return std::nullopt;
  }
  if (px.ymin < -1 || px.xmin < -1 || px.ymax > height + 1 || px.xmax > width + 1)
    problems.add("box(es) cut to the picture", values);
  return Box{cut.ymin / height, cut.xmin / width, cut.ymax / height, cut.xmax / width};
}

}  // namespace

std::string place_of(const AnnotatedImage& image) { return image.path.empty() ? image.file_name : image.path; }

std::optional<ReadPicture> read_picture(AnnotatedImage& image, RecordCheck check, Problems& problems) {
  if (!load(image, problems)) return std::nullopt;
  ReadPicture picture;
  try {
    picture.info = image_info(image.encoded);
    choose_size(picture.info, place_of(image), image, problems);
    if (check == RecordCheck::kNow && !image.path.empty()) picture.pixels = decode_image(image.encoded);
  } catch (const DataError& error) {
    if (check == RecordCheck::kNow) {
      problems.add_unusable("picture(s)", "not decodable", place_of(image) + ": " + error.what());
      return std::nullopt;
    }
    image.objects.clear();  // the decoder will say the same of the picture
  }
  return picture;
}

std::optional<std::string> record_of_image(AnnotatedImage image, const config::LabelMap& map, RecordCheck check,
                                           Problems& problems, std::map<std::string, int64_t>& classes) {
  const std::optional<ReadPicture> picture = read_picture(image, check, problems);
  if (!picture) return std::nullopt;
  return record_of_picture(image, picture->info, map, check, problems, classes);
}

std::string record_of_picture(const AnnotatedImage& image, const ImageInfo& info, const config::LabelMap& map,
                              RecordCheck check, Problems& problems, std::map<std::string, int64_t>& classes) {
  const std::string place = place_of(image);
  Builder record;
  record.add("image/height", image.height);
  record.add("image/width", image.width);
  record.add("image/filename", image.file_name);
  record.add("image/source_id", image.source_id);
  record.add("image/format", format_of(info, image.file_name));
  record.add("image/encoded", image.encoded);
  const bool has_groups = std::ranges::any_of(image.objects, &AnnotatedObject::group_of),
             has_ignored = std::ranges::any_of(image.objects, &AnnotatedObject::ignored);
  for (size_t i = 0; i < image.objects.size(); ++i) {
    const AnnotatedObject& object = image.objects[i];
    const config::LabelMap::Item* item = map.find(object.name);
    if (item == nullptr) {
      problems.add(fmt::format("{} does not have their class '{}'", kForeignObjects, object.name), place);
      continue;
    }
    const std::optional<Box> box = check == RecordCheck::kNow
                                       ? normalised(object, image, fmt::format("{} object {}", place, i), problems)
                                       : unchecked(object, image);
    if (!box) continue;
    record.add("image/object/bbox/ymin", box->ymin);
    record.add("image/object/bbox/xmin", box->xmin);
    record.add("image/object/bbox/ymax", box->ymax);
    record.add("image/object/bbox/xmax", box->xmax);
    record.add("image/object/class/label", static_cast<int64_t>(item->id));
    record.add("image/object/class/text", item->name);
    record.add("image/object/area", object.area_px > 0 ? object.area_px : object.box_px.area());
    record.add("image/object/is_crowd", static_cast<int64_t>(object.is_crowd));
    record.add("image/object/difficult", static_cast<int64_t>(object.difficult));
    record.add("image/object/truncated", static_cast<int64_t>(object.truncated));
    if (has_groups) record.add("image/object/group_of", static_cast<int64_t>(object.group_of));
    if (has_ignored) record.add("image/object/weight", object.ignored ? 0.0f : 1.0f);
    if (!object.ignored) ++classes[item->name];
  }
  return record.bytes();
}

}  // namespace osprey::data
