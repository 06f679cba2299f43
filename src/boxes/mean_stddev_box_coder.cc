#include "boxes/center_coding.h"
#include "boxes/code_scales.h"
#include "osprey/boxes/box_coder.h"
#include "osprey/protos/mean_stddev_box_coder.pb.h"

namespace osprey::boxes {
namespace {

/// Corner differences to the anchor, divided by one standard deviation.
class MeanStddevBoxCoder final : public BoxCoder {
 public:
  explicit MeanStddevBoxCoder(double stddev) : stddev_(stddev) {}

  int64_t code_size() const override { return 4; }
  at::Tensor encode(const at::Tensor& boxes, const at::Tensor& anchors, const at::Tensor&) const override {
    check_boxes(boxes, anchors);
    return (boxes - anchors) / stddev_;
  }
  at::Tensor decode(const at::Tensor& codes, const at::Tensor& anchors) const override {
    check_boxes(codes, anchors);
    return codes * stddev_ + anchors;
  }

 private:
  double stddev_;
};

std::unique_ptr<BoxCoder> make_mean_stddev_box_coder(const config::ConfigNode<proto::MeanStddevBoxCoder>& cfg) {
  return std::make_unique<MeanStddevBoxCoder>(positive(cfg, "stddev", cfg->stddev()));
}
OSPREY_REGISTER(BoxCoder, &make_mean_stddev_box_coder);

}  // namespace
}  // namespace osprey::boxes
