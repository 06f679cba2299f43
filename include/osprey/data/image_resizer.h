#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "osprey/config/node.h"
#include "osprey/config/registry.h"
#include "osprey/data/image_size.h"
#include "osprey/data/resize.h"
#include "osprey/protos/image_resizer.pb.h"

namespace osprey::data {

/// Brings pictures to the size that the network sees. The picture lies top left, what is left of the canvas is padding.
class ImageResizer {
 public:
  using Registry = config::Registry<ImageResizer>;
  virtual ~ImageResizer() = default;

  /// Size of the resized picture, without padding, for a picture of size `in`.
  virtual ImageSize content_size(ImageSize in) const = 0;
  /// Size of the whole canvas for a picture of size `in`.
  virtual ImageSize canvas_size(ImageSize in) const { return content_size(in); }
  /// Size of the canvas where it is the same for every picture; nothing where it is not static.
  virtual std::optional<ImageSize> static_size() const { return std::nullopt; }
  /// Size of the canvas; where it is not static, that for a picture of 480 x 640.
  ImageSize usual_size() const { return static_size().value_or(canvas_size({480, 640})); }

  /// Whether a picture may leave a part of its canvas empty.
  bool may_leave_padding() const;

  ResizeMethod method() const { return options_.method; }
  /// Whether the corner pixels' centres fall together, as only conditional_shape_resizer asks for.
  bool align_corners() const { return options_.align_corners; }
  /// 3, or 1 with convert_to_grayscale.
  int64_t channels() const { return grayscale_ ? 1 : 3; }
  /// Value of each channel in the padding, in the network's own units: padding comes after normalisation. Zeros unless
  /// set.
  const std::vector<float>& pad_value() const { return pad_value_; }

  struct Resized {
    at::Tensor image;  ///< [H, W, channels()] float32, padding set to pad_value()
    ImageSize content;
  };
  /// image  [h, w, 3] uint8 or float32
  Resized resize(const at::Tensor& image) const;
  /// Writes the resized picture into the top left of `canvas`, [H, W, channels()] uint8 (rounded) or float32, and
  /// leaves the padding as it is. The canvas must hold it. Returns the size of what was written.
  ImageSize resize_into(const at::Tensor& image, const at::Tensor& canvas) const;
  /// Nearest-neighbour resize of masks [N, h, w] to [N, H, W], padded with zeros.
  at::Tensor resize_masks(const at::Tensor& masks) const;

 protected:
  ImageResizer(ResizeOptions options, bool grayscale, std::vector<float> pad_value = {});

 private:
  ResizeOptions options_;
  bool grayscale_;
  std::vector<float> pad_value_;
};

/// Builds the resizer of a config.
/// throws ConfigError where nothing is chosen or a value is out of range
std::unique_ptr<ImageResizer> build_image_resizer(const config::ConfigNode<proto::ImageResizer>& config);

/// What pictures are resized for.
enum class ResizerUse {
  kTraining,   ///< image_resizer
  kEvaluation  ///< evaluation_image_resizer, where the meta-architecture has one that is set, else image_resizer
};

/// The resizer of a model, wherever the chosen meta-architecture keeps it: `meta_architecture` is the node of model.ssd
/// and the like.
std::unique_ptr<ImageResizer> build_image_resizer_of(const config::Node& meta_architecture,
                                                     ResizerUse use = ResizerUse::kTraining);

}  // namespace osprey::data
