#include "boxes/center_coding.h"
#include "boxes/code_scales.h"
#include "osprey/boxes/box_coder.h"
#include "osprey/boxes/geometry.h"
#include "osprey/protos/square_box_coder.pb.h"

namespace osprey::boxes {
namespace {

/// Boxes as squares of the same area: [dy / la, dx / la, log(l / la)], each times its scale, with l = sqrt(height *
/// width).
class SquareBoxCoder final : public BoxCoder {
 public:
  SquareBoxCoder(double y_scale, double x_scale, double length_scale)
      : y_scale_(y_scale), x_scale_(x_scale), length_scale_(length_scale) {}

  int64_t code_size() const override { return 3; }

  at::Tensor encode(const at::Tensor& boxes, const at::Tensor& anchors, const at::Tensor&) const override {
    check_boxes(boxes, anchors);
    const at::Tensor a = to_center_size(anchors), b = to_center_size(boxes);
    const at::Tensor anchor_length = length(a) + kEpsilon;
    return at::stack({(b.select(-1, 0) - a.select(-1, 0)) / anchor_length * y_scale_,
                      (b.select(-1, 1) - a.select(-1, 1)) / anchor_length * x_scale_,
                      ((length(b) + kEpsilon) / anchor_length).log() * length_scale_},
                     -1);
  }

  at::Tensor decode(const at::Tensor& codes, const at::Tensor& anchors) const override {
    check_codes(codes, anchors, code_size());
    const at::Tensor a = to_center_size(anchors), anchor_length = length(a);
    const at::Tensor side = (codes.select(-1, 2) / length_scale_).exp() * anchor_length;
    return to_corners(at::stack({codes.select(-1, 0) / y_scale_ * anchor_length + a.select(-1, 0),
                                 codes.select(-1, 1) / x_scale_ * anchor_length + a.select(-1, 1), side, side},
                                -1));
  }

 private:
  static at::Tensor length(const at::Tensor& center_size) {
    return (center_size.select(-1, 2) * center_size.select(-1, 3)).sqrt();
  }

  double y_scale_, x_scale_, length_scale_;
};

std::unique_ptr<BoxCoder> make_square_box_coder(const config::ConfigNode<proto::SquareBoxCoder>& cfg) {
  return std::make_unique<SquareBoxCoder>(positive(cfg, "y_scale", cfg->y_scale()),
                                          positive(cfg, "x_scale", cfg->x_scale()),
                                          positive(cfg, "length_scale", cfg->length_scale()));
}
OSPREY_REGISTER(BoxCoder, &make_square_box_coder);

}  // namespace
}  // namespace osprey::boxes
