#include "tile_records.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "orientation.h"
#include "osprey/base/error.h"
#include "osprey/data/image_codec.h"
#include "record_of_image.h"

namespace osprey::data {
namespace {

/// An object and its box in pixels of the picture, cut to it.
struct SheetObject {
  AnnotatedObject object;
  Box box_px;
};

Box common(const Box& a, const Box& b) {
  return {std::max(a.ymin, b.ymin), std::max(a.xmin, b.xmin), std::min(a.ymax, b.ymax), std::min(a.xmax, b.xmax)};
}

/// A picture that is cut.
class Sheet {
 public:
  /// picture  as `read_picture` gives it
  Sheet(AnnotatedImage image, const ReadPicture& picture, const config::LabelMap& map) : image_(std::move(image)) {
    const at::Tensor stored = picture.pixels.defined() ? picture.pixels : decode_image(image_.encoded);
    pixels_ = upright(
        stored, choose_orientation(picture.info, image_.height, image_.width, DecoderOptions::Exif::kAuto).applied);
    is_jpeg_ = picture.info.format == "jpeg";
    const Box all{0, 0, static_cast<float>(height()), static_cast<float>(width())};
    const float down = all.ymax / static_cast<float>(image_.height),
                across = all.xmax / static_cast<float>(image_.width);
    for (AnnotatedObject& object : image_.objects) {
      const Box& px = object.box_px;
      const Box box = common({px.ymin * down, px.xmin * across, px.ymax * down, px.xmax * across}, all);
      if (map.find(object.name) == nullptr || !(box.height() > 0 && box.width() > 0)) continue;
      object.area_px *= down * across;
      objects_.push_back({std::move(object), box});
    }
  }

  int64_t height() const { return pixels_.size(0); }
  int64_t width() const { return pixels_.size(1); }

  /// What lies in a tile, in its pixels.
  std::vector<AnnotatedObject> objects_in(const Box& tile, double min_visible) const {
    std::vector<AnnotatedObject> result;
    for (const SheetObject& whole : objects_) {
      const Box part = common(whole.box_px, tile);
      if (!(part.height() > 0 && part.width() > 0)) continue;
      AnnotatedObject object = whole.object;
      if (part != whole.box_px) {
        if (part.height() < 1 || part.width() < 1) continue;
        const float share = part.area() / whole.box_px.area();
        object.truncated = true;
        object.area_px *= share;
        if (share < min_visible) object.ignored = object.is_crowd = object.difficult = true;
      }
      object.box_px = {part.ymin - tile.ymin, part.xmin - tile.xmin, part.ymax - tile.ymin, part.xmax - tile.xmin};
      result.push_back(std::move(object));
    }
    return result;
  }

  AnnotatedImage cut(const Box& tile, std::vector<AnnotatedObject> objects) const {
    constexpr int kQuality = 95;
    const auto y = static_cast<int64_t>(tile.ymin), x = static_cast<int64_t>(tile.xmin);
    AnnotatedImage result;
    result.height = static_cast<int64_t>(tile.ymax) - y;
    result.width = static_cast<int64_t>(tile.xmax) - x;
    const at::Tensor part = pixels_.narrow(0, y, result.height).narrow(1, x, result.width).contiguous();
    const std::string corner = fmt::format("_x{}_y{}", x, y);
    result.source_id = image_.source_id + corner;
    result.file_name = image_.file_name + corner + (is_jpeg_ ? ".jpg" : ".png");
    result.encoded = is_jpeg_ ? encode_jpeg(part, kQuality) : encode_png(part);
    result.objects = std::move(objects);
    return result;
  }

 private:
  AnnotatedImage image_;
  at::Tensor pixels_;
  bool is_jpeg_ = false;
  std::vector<SheetObject> objects_;
};

}  // namespace

RecordCounts& RecordCounts::operator+=(const RecordCounts& other) {
  for (const auto& [name, count] : other.objects_of_class) objects_of_class[name] += count;
  num_whole += other.num_whole;
  num_tiles += other.num_tiles;
  num_cut += other.num_cut;
  num_background += other.num_background;
  return *this;
}

std::vector<std::string> records_with_tiles(AnnotatedImage image, const config::LabelMap& map, const RecordTiles& tiles,
                                            const RandomKey& key, Problems& problems, RecordCounts& counts) {
  const std::optional<ReadPicture> picture = read_picture(image, RecordCheck::kNow, problems);
  if (!picture) return {};
  RecordCounts of_whole{.num_whole = 1};
  std::string whole = record_of_picture(image, picture->info, map, RecordCheck::kNow, problems,
                                        of_whole.objects_of_class);  // which counts what is wrong with its boxes
  const std::string place = place_of(image);
  const Sheet sheet(std::move(image), *picture, map);
  std::vector<Box> places;
  try {
    places = boxes::tiles_px(sheet.height(), sheet.width(), tiles);
  } catch (const DataError& error) {
    problems.add_unusable("picture(s)", "not to be cut", place + ": " + error.what());
    return {};
  }
  std::vector<std::string> records;
  if (tiles.whole_picture || places.size() == 1) {
    records.push_back(std::move(whole));
    counts += of_whole;
  }
  if (places.size() == 1) return records;
  KeyedDraws draws(key);
  for (const Box& tile : places) {
    std::vector<AnnotatedObject> objects = sheet.objects_in(tile, tiles.min_visible);
    const auto num_ignored = std::ranges::count_if(objects, &AnnotatedObject::ignored);
    if (num_ignored == std::ssize(objects) && !(draws.uniform(0, 1) < tiles.background)) {
      ++counts.num_background;
      continue;
    }
    const AnnotatedImage part = sheet.cut(tile, std::move(objects));
    records.push_back(
        record_of_picture(part, image_info(part.encoded), map, RecordCheck::kNow, problems, counts.objects_of_class));
    counts.num_cut += num_ignored;
    ++counts.num_tiles;
  }
  return records;
}

}  // namespace osprey::data
