#include "osprey/boxes/tiles.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "osprey/base/error.h"

namespace osprey::boxes {
namespace {

constexpr size_t kMostTiles = 100'000;
constexpr float kCommon = 0.5f;   // share of the smaller box above which two boxes are of one object; as SAHI's default
constexpr float kAtSide = 0.01f;  // share of a part within which a box ends at its side

/// Where tiles of `side` begin that cover `length`, evenly spread.
std::vector<int64_t> starts(int64_t length, int64_t side, double overlap) {
  if (length <= side) return {0};
  const double step = std::max(1.0, std::floor(static_cast<double>(side) * (1 - overlap)));
  const auto steps = static_cast<int64_t>(std::ceil(static_cast<double>(length - side) / step));
  std::vector<int64_t> result;
  for (int64_t i = 0; i <= steps; ++i) result.push_back((length - side) * i / steps);
  return result;
}

/// A detection on its way to the list.
struct Seen {
  Detection detection;  ///< its box as fractions of the picture
  size_t view;
  bool cut;  ///< ends at a side of its part that is no side of the picture
};

bool is_cut(const Box& in_part, const Box& part) {
  return (in_part.ymin < kAtSide && part.ymin > 0) || (in_part.xmin < kAtSide && part.xmin > 0) ||
         (in_part.ymax > 1 - kAtSide && part.ymax < 1) || (in_part.xmax > 1 - kAtSide && part.xmax < 1);
}

Box in_picture(const Box& in_part, const Box& part) {
  return {part.ymin + in_part.ymin * part.height(), part.xmin + in_part.xmin * part.width(),
          part.ymin + in_part.ymax * part.height(), part.xmin + in_part.xmax * part.width()};
}

/// Whether `one` shows what `other`, which comes before it, shows better.
bool gives_way(const Seen& one, const Seen& other) {
  const bool is_part = one.cut && !other.cut;  // of which the class may be taken for another
  if (one.view == other.view || (one.detection.class_id != other.detection.class_id && !is_part)) return false;
  const Box &a = one.detection.box, &b = other.detection.box;
  const float height = std::min(a.ymax, b.ymax) - std::max(a.ymin, b.ymin),
              width = std::min(a.xmax, b.xmax) - std::max(a.xmin, b.xmin);
  return height > 0 && width > 0 && height * width > kCommon * (is_part ? a.area() : std::min(a.area(), b.area()));
}

/// For each view those others of which some box may overlap one of its own.
std::vector<std::vector<size_t>> views_that_meet(const std::vector<Seen>& all, size_t views) {
  constexpr float kFar = std::numeric_limits<float>::infinity();
  std::vector<Box> around(views, {kFar, kFar, -kFar, -kFar});  // all boxes of the view
  for (const Seen& one : all) {
    Box& box = around[one.view];
    const Box& own = one.detection.box;
    box = {std::min(box.ymin, own.ymin), std::min(box.xmin, own.xmin), std::max(box.ymax, own.ymax),
           std::max(box.xmax, own.xmax)};
  }
  std::vector<std::vector<size_t>> result(views);
  for (size_t a = 0; a < views; ++a)
    for (size_t b = 0; b < views; ++b)
      if (a != b && around[a].ymin < around[b].ymax && around[b].ymin < around[a].ymax &&
          around[a].xmin < around[b].xmax && around[b].xmin < around[a].xmax)
        result[a].push_back(b);
  return result;
}

}  // namespace

std::vector<Box> tiles_px(int64_t height, int64_t width, const TileOptions& options) {
  TORCH_CHECK(height >= 1 && width >= 1, "a picture of ", width, " x ", height, " pixels has no tiles");
  TORCH_CHECK(options.side_px >= 1, "side_px must be >= 1, got ", options.side_px);
  TORCH_CHECK(options.overlap >= 0 && options.overlap <= 0.9, "overlap must be in [0, 0.9], got ", options.overlap);
  const std::vector<int64_t> rows = starts(height, options.side_px, options.overlap),
                             columns = starts(width, options.side_px, options.overlap);
  if (const size_t count = rows.size() * columns.size(); count > kMostTiles)
    throw DataError(
        fmt::format("a picture of {} x {} pixels has {} tiles of {} pixels that share {:g} with their neighbours, more "
                    "than {}: larger tiles or a smaller overlap are needed",
                    width, height, count, options.side_px, options.overlap, kMostTiles));
  std::vector<Box> result;
  for (const int64_t y : rows)
    for (const int64_t x : columns)
      result.push_back({static_cast<float>(y), static_cast<float>(x),
                        static_cast<float>(std::min(y + options.side_px, height)),
                        static_cast<float>(std::min(x + options.side_px, width))});
  return result;
}

std::vector<Detection> merge_views(const std::vector<TileView>& views) {
  std::vector<Seen> all;
  for (size_t v = 0; v < views.size(); ++v)
    for (Detection detection : views[v].found) {
      const bool cut = is_cut(detection.box, views[v].place);
      detection.box = in_picture(detection.box, views[v].place);
      all.push_back({std::move(detection), v, cut});
    }
  std::ranges::stable_sort(
      all, [](const Seen& a, const Seen& b) { return a.cut != b.cut ? b.cut : a.detection.score > b.detection.score; });
  const std::vector<std::vector<size_t>> neighbours = views_that_meet(all, views.size());
  std::vector<std::vector<Seen>> kept(views.size());  // by view
  std::vector<Detection> result;
  for (Seen& one : all) {
    const auto hides_it = [&](const Seen& other) { return gives_way(one, other); };
    if (std::ranges::any_of(neighbours[one.view], [&](size_t v) { return std::ranges::any_of(kept[v], hides_it); }))
      continue;
    result.push_back(one.detection);
    kept[one.view].push_back(std::move(one));
  }
  std::ranges::stable_sort(result, [](const Detection& a, const Detection& b) { return a.score > b.score; });
  return result;
}

std::vector<Detection> detect_in_tiles(const at::Tensor& image, const TileOptions& options, const Find& find) {
  TORCH_CHECK(image.dim() == 3, "image must be [H, W, 3], is ", image.sizes());
  const int64_t height = image.size(0), width = image.size(1);
  const auto h = static_cast<float>(height), w = static_cast<float>(width);
  std::vector<TileView> views;
  std::vector<at::Tensor> parts;
  for (const Box& tile : tiles_px(height, width, options)) {
    views.push_back({{tile.ymin / h, tile.xmin / w, tile.ymax / h, tile.xmax / w}, {}});
    parts.push_back(image.slice(0, static_cast<int64_t>(tile.ymin), static_cast<int64_t>(tile.ymax))
                        .slice(1, static_cast<int64_t>(tile.xmin), static_cast<int64_t>(tile.xmax)));
  }
  if (options.whole_picture && parts.size() > 1) {
    views.push_back({{0, 0, 1, 1}, {}});
    parts.push_back(image);
  }
  std::vector<std::vector<Detection>> found = find(parts);
  for (size_t v = 0; v < views.size(); ++v) views[v].found = std::move(found[v]);
  return merge_views(views);
}

}  // namespace osprey::boxes
