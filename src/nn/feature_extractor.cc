#include "osprey/nn/feature_extractor.h"

namespace osprey::nn {

BackboneFeatureExtractor::BackboneFeatureExtractor(std::shared_ptr<Backbone> backbone, std::shared_ptr<Neck> neck,
                                                   const Options& options)
    : backbone_(std::move(backbone)), neck_(std::move(neck)), options_(options) {
  register_module(backbone_->scope(), backbone_);
  for (const auto& item : named_parameters()) backbone_variables_.push_back(item.key());
  for (const auto& item : named_buffers()) backbone_variables_.push_back(item.key());
  if (neck_->scope().empty()) {
    adopt_children(*backbone_, *neck_);
  } else {
    register_module(neck_->scope(), neck_);
  }
}

std::vector<at::Tensor> BackboneFeatureExtractor::forward(const at::Tensor& images, const Context& context) {
  const int64_t multiple = options_.pad_to_multiple;
  const int64_t below = (multiple - images.size(2) % multiple) % multiple,
                right = (multiple - images.size(3) % multiple) % multiple;
  const at::Tensor padded = below + right > 0 ? at::constant_pad_nd(images, {0, right, 0, below}) : images;
  return neck_->forward(backbone_->forward(padded, neck_->endpoints(), context), context);
}

}  // namespace osprey::nn
