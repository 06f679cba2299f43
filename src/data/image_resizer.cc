#include "osprey/data/image_resizer.h"

#include <ATen/ATen.h>

#include "osprey/data/color_ops.h"

namespace osprey::data {

ImageResizer::ImageResizer(ResizeOptions options, bool grayscale, std::vector<float> pad_value)
    : options_(options), grayscale_(grayscale), pad_value_(std::move(pad_value)) {
  if (pad_value_.empty()) pad_value_.assign(3, 0.0f);
  if (grayscale_) pad_value_ = {luma(at::tensor(pad_value_).view({1, 1, 3})).item<float>()};
}

bool ImageResizer::may_leave_padding() const {
  const ImageSize thin{37, 1911};  // if any does, a long thin one does
  return !(content_size(thin) == canvas_size(thin));
}

ImageSize ImageResizer::resize_into(const at::Tensor& image, const at::Tensor& canvas) const {
  TORCH_CHECK(image.dim() == 3 && image.size(2) == 3, "image must be [H, W, 3], got ", image.sizes());
  const ImageSize content = content_size({image.size(0), image.size(1)});
  TORCH_CHECK(canvas.dim() == 3 && canvas.size(0) >= content.height && canvas.size(1) >= content.width &&
                  canvas.size(2) == channels(),
              "a picture of ", content.height, " x ", content.width, " does not fit a canvas of ", canvas.sizes());
  at::Tensor window = canvas.narrow(0, 0, content.height).narrow(1, 0, content.width);
  if (!grayscale_) {
    data::resize_into(image, window, options_);
    return content;
  }
  const at::Tensor gray = luma(data::resize(image, content.height, content.width, options_));
  window.copy_(canvas.scalar_type() == at::kByte ? gray.add(0.5).clamp_(0, 255) : gray);
  return content;
}

ImageResizer::Resized ImageResizer::resize(const at::Tensor& image) const {
  TORCH_CHECK(image.dim() == 3, "image must be [H, W, 3], got ", image.sizes());
  const ImageSize canvas = canvas_size({image.size(0), image.size(1)});
  Resized out;
  out.image = at::tensor(pad_value_).expand({canvas.height, canvas.width, channels()}).contiguous();
  out.content = resize_into(image, out.image);
  return out;
}

at::Tensor ImageResizer::resize_masks(const at::Tensor& masks) const {
  TORCH_CHECK(masks.dim() == 3, "masks must be [N, H, W], got ", masks.sizes());
  const ImageSize in{masks.size(1), masks.size(2)}, content = content_size(in), canvas = canvas_size(in);
  at::Tensor out = at::zeros({masks.size(0), canvas.height, canvas.width});
  for (int64_t i = 0; i < masks.size(0); ++i)
    data::resize_into(masks[i].to(at::kFloat).unsqueeze(2),
                      out[i].narrow(0, 0, content.height).narrow(1, 0, content.width).unsqueeze(2),
                      {ResizeMethod::kNearest, options_.align_corners});
  return out;
}

std::unique_ptr<ImageResizer> build_image_resizer(const config::ConfigNode<proto::ImageResizer>& config) {
  return ImageResizer::Registry::instance().build(config, "image_resizer_oneof");
}

std::unique_ptr<ImageResizer> build_image_resizer_of(const config::Node& meta_architecture, ResizerUse use) {
  const google::protobuf::Message& message = meta_architecture.message();
  const auto field_named = [&](const char* name) { return message.GetDescriptor()->FindFieldByName(name); };
  const auto* field = field_named("evaluation_image_resizer");
  const bool is_of_its_own =
      use == ResizerUse::kEvaluation && field != nullptr && message.GetReflection()->HasField(message, field);
  if (!is_of_its_own) field = field_named("image_resizer");
  if (field == nullptr || field->message_type() != proto::ImageResizer::descriptor())
    meta_architecture.fail("", "has no image_resizer");
  if (!message.GetReflection()->HasField(message, field)) meta_architecture.fail("image_resizer", "must be set");
  const config::Node child(message.GetReflection()->GetMessage(message, field),
                           meta_architecture.path_of(field->name()), meta_architecture.sources());
  return build_image_resizer(config::ConfigNode<proto::ImageResizer>(child));
}

}  // namespace osprey::data
