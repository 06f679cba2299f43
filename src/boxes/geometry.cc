#include "osprey/boxes/geometry.h"

#include <ATen/ATen.h>

namespace osprey::boxes {
namespace {

struct Sides {
  at::Tensor ymin, xmin, ymax, xmax;
};

Sides sides(const at::Tensor& boxes) {
  TORCH_CHECK(boxes.dim() >= 1 && boxes.size(-1) == 4, "boxes must be [..., 4], got ", boxes.sizes());
  return {boxes.select(-1, 0), boxes.select(-1, 1), boxes.select(-1, 2), boxes.select(-1, 3)};
}

/// The first of a pair as a column, the second as a row, so that they broadcast to a matrix.
at::Tensor column(const at::Tensor& values) { return values.unsqueeze(-1); }
at::Tensor row(const at::Tensor& values) { return values.unsqueeze(-2); }

at::Tensor union_area(const at::Tensor& a, const at::Tensor& b, const at::Tensor& common) {
  return column(area(a)) + row(area(b)) - common;
}

/// x / y, and 0 where `absent`, without NaN in the gradient.
at::Tensor ratio(const at::Tensor& x, const at::Tensor& y, const at::Tensor& absent) {
  return at::where(absent, at::zeros({}, x.options()), x / at::where(absent, at::ones({}, y.options()), y));
}

}  // namespace

at::Tensor unit_square(const at::TensorOptions& options) {
  return at::arange(4, options).ge(2).to(c10::typeMetaToScalarType(options.dtype()));
}

at::Tensor area(const at::Tensor& boxes) {
  const Sides s = sides(boxes);
  return (s.ymax - s.ymin) * (s.xmax - s.xmin);
}

at::Tensor to_center_size(const at::Tensor& boxes) {
  const Sides s = sides(boxes);
  const at::Tensor height = s.ymax - s.ymin, width = s.xmax - s.xmin;
  return at::stack({s.ymin + height / 2, s.xmin + width / 2, height, width}, -1);
}

at::Tensor to_corners(const at::Tensor& center_size) {
  const Sides s = sides(center_size);  // ycenter, xcenter, height, width
  const at::Tensor half_height = s.ymax / 2, half_width = s.xmax / 2;
  return at::stack({s.ymin - half_height, s.xmin - half_width, s.ymin + half_height, s.xmin + half_width}, -1);
}

at::Tensor intersection(const at::Tensor& a, const at::Tensor& b) {
  const Sides s = sides(a), t = sides(b);
  const at::Tensor height = at::minimum(column(s.ymax), row(t.ymax)) - at::maximum(column(s.ymin), row(t.ymin));
  const at::Tensor width = at::minimum(column(s.xmax), row(t.xmax)) - at::maximum(column(s.xmin), row(t.xmin));
  return height.clamp_min(0) * width.clamp_min(0);
}

at::Tensor iou(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor common = intersection(a, b);
  return ratio(common, union_area(a, b, common), common == 0);
}

at::Tensor ioa(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor common = intersection(a, b), whole = row(area(b)).expand_as(common);
  return common / whole;  // a box without area has no share: 0 / 0, as in the original
}

at::Tensor giou(const at::Tensor& a, const at::Tensor& b) {
  const Sides s = sides(a), t = sides(b);
  const at::Tensor common = intersection(a, b), joined = union_area(a, b, common);
  const at::Tensor height = at::maximum(column(s.ymax), row(t.ymax)) - at::minimum(column(s.ymin), row(t.ymin));
  const at::Tensor width = at::maximum(column(s.xmax), row(t.xmax)) - at::minimum(column(s.xmin), row(t.xmin));
  const at::Tensor hull = height * width;
  return ratio(common, joined, joined == 0) - ratio(hull - joined, hull, hull == 0);
}

at::Tensor l1(const at::Tensor& a, const at::Tensor& b) {
  return (to_center_size(a).unsqueeze(-2) - to_center_size(b).unsqueeze(-3)).abs().sum(-1);
}

at::Tensor squared_distance(const at::Tensor& a, const at::Tensor& b) {
  return column(a.square().sum(-1)) + row(b.square().sum(-1)) - 2 * at::matmul(a, b.transpose(-1, -2));
}

at::Tensor clip_to_window(const at::Tensor& boxes, const at::Tensor& window) {
  const Sides s = sides(boxes), w = sides(window.unsqueeze(-2));
  const auto clip = [](const at::Tensor& value, const at::Tensor& low, const at::Tensor& high) {
    return at::maximum(at::minimum(value, high), low);
  };
  return at::stack({clip(s.ymin, w.ymin, w.ymax), clip(s.xmin, w.xmin, w.xmax), clip(s.ymax, w.ymin, w.ymax),
                    clip(s.xmax, w.xmin, w.xmax)},
                   -1);
}

at::Tensor change_coordinate_frame(const at::Tensor& boxes, const at::Tensor& window) {
  const Sides s = sides(boxes), w = sides(window.unsqueeze(-2));
  const at::Tensor height = w.ymax - w.ymin, width = w.xmax - w.xmin;
  return at::stack(
      {(s.ymin - w.ymin) / height, (s.xmin - w.xmin) / width, (s.ymax - w.ymin) / height, (s.xmax - w.xmin) / width},
      -1);
}

at::Tensor scale(const at::Tensor& boxes, double y_scale, double x_scale) {
  const Sides s = sides(boxes);
  return at::stack({s.ymin * y_scale, s.xmin * x_scale, s.ymax * y_scale, s.xmax * x_scale}, -1);
}

}  // namespace osprey::boxes
