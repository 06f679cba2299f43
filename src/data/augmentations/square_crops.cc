#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "data/augmentations/checks.h"
#include "osprey/data/augmentation.h"
#include "osprey/data/example_ops.h"
#include "osprey/data/image_resizer.h"

namespace osprey::data {
namespace {
using config::ConfigNode;

// Boxes that do not touch the image are dropped, the others clipped.
void keep_touching(Example& example) {
  std::vector<int64_t> kept;
  for (size_t i = 0; i < example.boxes.size(); ++i) {
    const Box& box = example.boxes[i];
    if (box.ymin < 1 && box.xmin < 1 && box.ymax > 0 && box.xmax > 0) kept.push_back(static_cast<int64_t>(i));
  }
  select(example, kept);
  clip_boxes(example);
}

// Takes rows [top, top + side) and columns [left, left + side) of a picture [.., H, W], zeros outside it.
at::Tensor square_window(const at::Tensor& picture, int64_t first, int64_t top, int64_t left, int64_t side) {
  std::vector<int64_t> shape = picture.sizes().vec();
  const int64_t rows = shape[first], columns = shape[first + 1];
  shape[first] = shape[first + 1] = side;
  at::Tensor canvas = at::zeros(shape, picture.options());
  const int64_t y = std::max<int64_t>(top, 0), x = std::max<int64_t>(left, 0);
  const int64_t height = std::min(top + side, rows) - y, width = std::min(left + side, columns) - x;
  if (height > 0 && width > 0)
    canvas.narrow(first, y - top, height)
        .narrow(first + 1, x - left, width)
        .copy_(picture.narrow(first, y, height).narrow(first + 1, x, width));
  return canvas;
}

// visible: how many rows and columns of the image may be shown.
void cut_square(Example& example, int64_t top, int64_t left, int64_t side, ImageSize visible) {
  const float rows = static_cast<float>(example.image.size(0)), columns = static_cast<float>(example.image.size(1));
  change_frame(example, {static_cast<float>(top) / rows, static_cast<float>(left) / columns,
                         static_cast<float>(top + side) / rows, static_cast<float>(left + side) / columns});
  const auto cut = [&](const at::Tensor& picture, int64_t first) {
    return square_window(picture.slice(first, 0, visible.height).slice(first + 1, 0, visible.width), first, top, left,
                         side);
  };
  example.image = cut(example.image, 0);
  if (example.masks.defined()) example.masks = cut(example.masks, 1);
  keep_touching(example);
  prune_keypoints(example);
}

// The long side to scale * output_size, then a crop or zero padding to a square of output_size; Tan et al.,
// "EfficientDet", CVPR 2020.
class ScaleCropAndPadToSquare final : public Augmentation {
 public:
  ScaleCropAndPadToSquare(int64_t output_size, float low, float high) : side_(output_size), low_(low), high_(high) {}
  void apply(Example& example, RandomDraws& draws) const override {
    const float scale = draws.uniform(low_, high_), rows = static_cast<float>(example.image.size(0)),
                columns = static_cast<float>(example.image.size(1));
    const float longer = std::max(rows, columns), target = scale * static_cast<float>(side_);
    const int64_t height = std::max<int64_t>(1, static_cast<int64_t>(target * (rows / longer)));
    const int64_t width = std::max<int64_t>(1, static_cast<int64_t>(target * (columns / longer)));
    const auto offset = [&](int64_t size) {
      return static_cast<int64_t>(std::max(0.0f, static_cast<float>(size - side_)) * draws.uniform(0, 1));
    };
    const int64_t top = offset(height), left = offset(width);
    resize(example, height, width, {}, /*masks=*/{});
    cut_square(example, top, left, side_, {height, width});
  }

 private:
  int64_t side_;
  float low_, high_;
};

// A square of a random share of the longer side around a random centre, zeros outside; Zhou et al., "Objects as
// Points", 2019.
class SquareCropByScale final : public Augmentation {
 public:
  SquareCropByScale(std::vector<float> scales, int64_t max_border)
      : scales_(std::move(scales)), max_border_(max_border) {}
  void apply(Example& example, RandomDraws& draws) const override {
    const int64_t rows = example.image.size(0), columns = example.image.size(1);
    const float scale = scales_[draws.integer(0, static_cast<int64_t>(scales_.size()))];
    const int64_t side =
        std::max<int64_t>(2, static_cast<int64_t>(scale * static_cast<float>(std::max(rows, columns))));
    const auto center = [&](int64_t size) {
      const int64_t border = border_of(size);
      return draws.integer(border, size - border + 1);
    };
    const int64_t y = center(rows), x = center(columns), half = side / 2;
    // As the original, the last row and column of the image never show.
    cut_square(example, y - half, x - half, side, {std::min(y + half, rows - 1), std::min(x + half, columns - 1)});
  }

 private:
  // The border halved until it is below half the side.
  int64_t border_of(int64_t size) const {
    int64_t divisor = 1;
    while (divisor < max_border_ &&
           2.0f * static_cast<float>(max_border_) / static_cast<float>(divisor) > static_cast<float>(size))
      divisor *= 2;
    return max_border_ / std::min(divisor, std::max<int64_t>(max_border_, 1));
  }
  std::vector<float> scales_;
  int64_t max_border_;
};

std::unique_ptr<Augmentation> make_to_square(const ConfigNode<proto::RandomScaleCropAndPadToSquare>& cfg) {
  if (cfg->output_size() < 1) cfg.fail("output_size", "must be >= 1");
  if (!(cfg->scale_min() > 0)) cfg.fail("scale_min", "must be > 0");
  check_range(cfg, "scale_min", cfg->scale_min(), "scale_max", cfg->scale_max(), 0);
  return std::make_unique<ScaleCropAndPadToSquare>(cfg->output_size(), cfg->scale_min(), cfg->scale_max());
}

std::unique_ptr<Augmentation> make_square_crop(const ConfigNode<proto::RandomSquareCropByScale>& cfg) {
  if (!(cfg->scale_min() > 0)) cfg.fail("scale_min", "must be > 0");
  check_range(cfg, "scale_min", cfg->scale_min(), "scale_max", cfg->scale_max(), 0);
  if (cfg->num_scales() < 1) cfg.fail("num_scales", "must be >= 1");
  if (cfg->max_border() < 0) cfg.fail("max_border", "must be >= 0");
  std::vector<float> scales;
  const float step =
      cfg->num_scales() > 1 ? (cfg->scale_max() - cfg->scale_min()) / static_cast<float>(cfg->num_scales() - 1) : 0;
  for (int i = 0; i < cfg->num_scales(); ++i) scales.push_back(cfg->scale_min() + step * static_cast<float>(i));
  return std::make_unique<SquareCropByScale>(std::move(scales), cfg->max_border());
}
OSPREY_REGISTER(Augmentation, &make_to_square);
OSPREY_REGISTER(Augmentation, &make_square_crop);
}  // namespace
}  // namespace osprey::data
