#include "boxes/center_coding.h"
#include "boxes/code_scales.h"
#include "osprey/boxes/box_coder.h"
#include "osprey/boxes/geometry.h"
#include "osprey/core/constant.h"
#include "osprey/protos/keypoint_box_coder.pb.h"

namespace osprey::boxes {
namespace {

/// The Faster R-CNN code of the box, then (y, x) of every keypoint coded like the box's centre.
class KeypointBoxCoder final : public BoxCoder {
 public:
  KeypointBoxCoder(int64_t num_keypoints, const CodeScales& scales) : num_keypoints_(num_keypoints), scales_(scales) {}

  int64_t code_size() const override { return 4 + 2 * num_keypoints_; }
  int64_t num_keypoints() const override { return num_keypoints_; }

  at::Tensor encode(const at::Tensor& boxes, const at::Tensor& anchors, const at::Tensor& keypoints) const override {
    at::Tensor box_codes = encode_center_size(boxes, anchors, scales_);
    if (num_keypoints_ == 0) return box_codes;
    TORCH_CHECK(keypoints.defined(), "the keypoint box coder needs keypoints");
    TORCH_CHECK(keypoints.dim() == boxes.dim() + 1 && keypoints.size(-2) == num_keypoints_ && keypoints.size(-1) == 2,
                "keypoints must be [..., A, ", num_keypoints_, ", 2], got ", keypoints.sizes());
    const auto [centers, sizes] = frame(anchors);
    const at::Tensor codes = (keypoints - centers) / (sizes + kEpsilon) * scales(keypoints);
    return at::cat({box_codes, codes.flatten(-2)}, -1);
  }

  at::Tensor decode(const at::Tensor& codes, const at::Tensor& anchors) const override {
    check_codes(codes, anchors, code_size());
    return decode_center_size(codes.narrow(-1, 0, 4), anchors, scales_);
  }

  at::Tensor decode_keypoints(const at::Tensor& codes, const at::Tensor& anchors) const override {
    check_codes(codes, anchors, code_size());
    const at::Tensor keypoints = codes.narrow(-1, 4, 2 * num_keypoints_).unflatten(-1, {num_keypoints_, 2});
    const auto [centers, sizes] = frame(anchors);
    return keypoints / scales(keypoints) * sizes + centers;
  }

 private:
  /// Centre and size of each anchor, [A, 1, 2] each.
  static std::pair<at::Tensor, at::Tensor> frame(const at::Tensor& anchors) {
    const at::Tensor center_size = to_center_size(anchors).unsqueeze(-2);
    return {center_size.narrow(-1, 0, 2), center_size.narrow(-1, 2, 2)};
  }
  at::Tensor scales(const at::Tensor& like) const { return constant({scales_.y, scales_.x}, like.options()); }

  int64_t num_keypoints_;
  CodeScales scales_;
};

std::unique_ptr<BoxCoder> make_keypoint_box_coder(const config::ConfigNode<proto::KeypointBoxCoder>& cfg) {
  if (cfg->num_keypoints() < 0) cfg.fail("num_keypoints", "must be >= 0, got " + std::to_string(cfg->num_keypoints()));
  return std::make_unique<KeypointBoxCoder>(cfg->num_keypoints(), code_scales(cfg));
}
OSPREY_REGISTER(BoxCoder, &make_keypoint_box_coder);

}  // namespace
}  // namespace osprey::boxes
