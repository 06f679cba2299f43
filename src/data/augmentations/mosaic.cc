#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/augmentations/checks.h"
#include "osprey/data/example_ops.h"

// Bochkovskiy et al., "YOLOv4: Optimal Speed and Accuracy of Object Detection", 2020, section 3.3. Usual pipelines put
// four pictures on a canvas of twice the sides, scale it and cut a window of half its sides out; here each picture is
// drawn at once where and as large as it is then seen.
namespace osprey::data {
namespace {
using config::ConfigNode;

struct MosaicOptions {
  float min_center, max_center, min_scale, max_scale, overlap_thresh;
  std::vector<float> color;  // empty: the mean of the example
};

/// Of one side of a picture: how many of its pixels are seen, and on how many of the canvas; of one that is cut off, on
/// all that there is room for.
struct Visible {
  int64_t seen, shown;
};
Visible visible_part(int64_t side, int64_t room, double factor) {
  const auto rounded = [](double value, int64_t most) {
    return std::max<int64_t>(1, std::lrint(std::min(value, static_cast<double>(most))));
  };
  const int64_t seen = rounded(static_cast<double>(room) / factor, side);
  return {seen, seen < side ? room : rounded(static_cast<double>(seen) * factor, room)};
}

/// One of the four around the point.
struct Quarter {
  bool above, before;
};

class Mosaic final : public Combination {
 public:
  Mosaic(const Times& times, MosaicOptions options) : Combination(times), options_(std::move(options)) {}
  int64_t num_others() const override { return 3; }

  void combine(Example& example, const OtherExamples& others, RandomDraws& draws) const override {
    const int64_t height = example.image.size(0), width = example.image.size(1), channels = example.image.size(2);
    const at::Tensor canvas = at::tensor(options_.color.empty() ? mean_color(example.image) : options_.color)
                                  .expand({height, width, channels})
                                  .contiguous();
    const auto place = [&](int64_t side) {
      return std::lrint(draws.uniform(options_.min_center, options_.max_center) * static_cast<float>(side));
    };
    const int64_t y = place(height), x = place(width);
    show(example, canvas, y, x, {.above = true, .before = true}, draws);
    for (const Quarter quarter : {Quarter{true, false}, {false, true}, {false, false}}) {
      Example other = others(draws);
      show(other, canvas, y, x, quarter, draws);
      append(example, other);
    }
    example.image = canvas;
  }

 private:
  // Puts what is seen of a picture onto its quarter, from (y, x) outwards, and its objects into the canvas.
  void show(Example& picture, const at::Tensor& canvas, int64_t y, int64_t x, Quarter quarter,
            RandomDraws& draws) const {
    const int64_t height = canvas.size(0), width = canvas.size(1);
    const int64_t rows = picture.image.size(0), columns = picture.image.size(1);
    const double fits = std::min(static_cast<double>(height) / static_cast<double>(rows),
                                 static_cast<double>(width) / static_cast<double>(columns));
    const double factor = fits * draws.uniform(options_.min_scale, options_.max_scale);
    const int64_t room_down = quarter.above ? y : height - y, room_across = quarter.before ? x : width - x;
    if (room_down == 0 || room_across == 0) {
      select(picture, {});
      return resize(picture, height, width);
    }
    const Visible down = visible_part(rows, room_down, factor), across = visible_part(columns, room_across, factor);
    const int64_t row = quarter.above ? rows - down.seen : 0, column = quarter.before ? columns - across.seen : 0;
    crop(picture, {row, column, row + down.seen, column + across.seen}, options_.overlap_thresh, /*clip=*/true);
    resize(picture, down.shown, across.shown);
    const int64_t top = quarter.above ? y - down.shown : y, left = quarter.before ? x - across.shown : x;
    canvas.narrow(0, top, down.shown).narrow(1, left, across.shown).copy_(picture.image);
    move_objects(picture, height, width, top, left);
  }

  MosaicOptions options_;
};

std::unique_ptr<Augmentation> make_mosaic(const ConfigNode<proto::RandomMosaic>& cfg) {
  check_range(cfg, "min_center", cfg->min_center(), "max_center", cfg->max_center(), 0);
  if (cfg->max_center() > 1) cfg.fail("max_center", fmt::format("must be <= 1, got {}", cfg->max_center()));
  if (!(cfg->min_scale() > 0)) cfg.fail("min_scale", fmt::format("must be > 0, got {}", cfg->min_scale()));
  check_range(cfg, "min_scale", cfg->min_scale(), "max_scale", cfg->max_scale(), 0);
  if (!std::isfinite(cfg->max_scale())) cfg.fail("max_scale", "must be finite");
  check_probability(cfg, "overlap_thresh", cfg->overlap_thresh());
  return std::make_unique<Mosaic>(
      times_of(cfg), MosaicOptions{cfg->min_center(), cfg->max_center(), cfg->min_scale(), cfg->max_scale(),
                                   cfg->overlap_thresh(), pad_color(cfg)});
}
OSPREY_REGISTER(Augmentation, &make_mosaic);
}  // namespace
}  // namespace osprey::data
