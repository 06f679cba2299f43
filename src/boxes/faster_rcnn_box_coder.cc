#include "boxes/center_coding.h"
#include "boxes/code_scales.h"
#include "osprey/boxes/box_coder.h"
#include "osprey/protos/faster_rcnn_box_coder.pb.h"

namespace osprey::boxes {
namespace {

class FasterRcnnBoxCoder final : public BoxCoder {
 public:
  explicit FasterRcnnBoxCoder(const CodeScales& scales) : scales_(scales) {}

  int64_t code_size() const override { return 4; }
  at::Tensor encode(const at::Tensor& boxes, const at::Tensor& anchors, const at::Tensor&) const override {
    return encode_center_size(boxes, anchors, scales_);
  }
  at::Tensor decode(const at::Tensor& codes, const at::Tensor& anchors) const override {
    return decode_center_size(codes, anchors, scales_);
  }
  const CodeScales* center_size_scales() const override { return &scales_; }

 private:
  CodeScales scales_;
};

std::unique_ptr<BoxCoder> make_faster_rcnn_box_coder(const config::ConfigNode<proto::FasterRcnnBoxCoder>& cfg) {
  return std::make_unique<FasterRcnnBoxCoder>(code_scales(cfg));
}
OSPREY_REGISTER(BoxCoder, &make_faster_rcnn_box_coder);

}  // namespace
}  // namespace osprey::boxes
