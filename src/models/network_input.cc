#include "osprey/models/network_input.h"

#include <ATen/ATen.h>
#include <ATen/TracerMode.h>
#include <ATen/autocast_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "osprey/base/error.h"
#include "osprey/core/constant.h"
#include "osprey/data/image_resizer.h"
#include "osprey/kernels/preprocess.h"

namespace osprey::models {
namespace {

/// One factor per channel, as a number where all are equal.
at::Tensor scaled(at::Tensor x, const nn::Normalization& normalization) {
  const auto& [scale, offset] = normalization;
  const bool uniform = scale[0] == scale[1] && scale[0] == scale[2] && offset[0] == offset[1] && offset[0] == offset[2];
  if (uniform) return x.mul_(scale[0]).add_(offset[0]);
  const auto channels = [&](const std::array<float, 3>& values) {
    return constant({values[0], values[1], values[2]}, x.options()).view({1, 3, 1, 1});
  };
  return x.mul_(channels(scale)).add_(channels(offset));
}

}  // namespace

NetworkInputOptions read_network_input(const config::Node& meta_architecture) {
  const auto resizer = data::build_image_resizer_of(meta_architecture);
  if (resizer->channels() != 3)
    meta_architecture.fail("image_resizer",
                           "convert_to_grayscale is not supported yet: " + meta_architecture.path_of("image_resizer"));
  const data::ImageSize size = resizer->usual_size();
  NetworkInputOptions options{.size = {size.height, size.width}, .any_size = !resizer->static_size()};
  options.has_padding = options.any_size || resizer->may_leave_padding();
  for (const float value : resizer->pad_value())
    if (value != 0) options.pad_value = resizer->pad_value();
  return options;
}

NetworkInput::NetworkInput(const NetworkInputOptions& options, const nn::FeatureExtractor& network)
    : options_(options), normalization_(network.normalization()), min_side_(network.min_image_side()) {}

std::array<int64_t, 2> NetworkInput::size_for(const at::Tensor& images) const {
  if (!options_.any_size) return options_.size;
  return {images.size(2), images.size(3)};
}

void NetworkInput::check_size(const Batch& batch) const {
  const auto [height, width] = size_for(batch.images);
  if (std::min(height, width) >= min_side_) return;
  throw DataError(
      fmt::format("a batch with image '{}' is of {} x {} pixels (height x width) after the image_resizer, and the "
                  "network needs at least {} a side",
                  batch.ids.empty() ? "" : batch.ids.front(), height, width, min_side_));
}

at::Tensor NetworkInput::seen_of(const at::Tensor& images) const {
  if (!options_.sees_middle) return images;
  const auto middle = [](const at::Tensor& x, int64_t dimension, int64_t length) {
    return x.narrow(dimension, (x.size(dimension) - length) / 2, length);
  };
  return middle(middle(images, 2, options_.size[0]), 3, options_.size[1]).contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor NetworkInput::by_kernel(const at::Tensor& seen, const Batch& batch) const {
  kernels::PreprocessOptions options;
  for (size_t c = 0; c < 3; ++c) {
    options.scale[c] = normalization_.scale[c];
    options.offset[c] = normalization_.offset[c];
    if (!options_.pad_value.empty()) options.pad[c] = options_.pad_value[c];
  }
  const at::DeviceType device = seen.device().type();
  if (at::autocast::is_autocast_enabled(device)) options.type = at::autocast::get_autocast_dtype(device);
  const auto [height, width] = size_for(seen);
  const bool as_it_is = seen.scalar_type() == at::kByte || seen.scalar_type() == at::kFloat;
  return kernels::preprocess(as_it_is ? seen : seen.to(at::kFloat),
                             options_.has_padding ? batch.true_shapes.to(seen.device()) : at::Tensor(), options,
                             {batch.source_shapes, height, width});
}

at::Tensor NetworkInput::by_operations(const at::Tensor& seen, const Batch& batch) const {
  at::Tensor images = seen.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true, at::MemoryFormat::ChannelsLast);
  images = scaled(images, normalization_);
  if (!options_.has_padding) return images;
  // Neither shapes nor places name a device: it would be that of the export, wherever the model serves.
  const auto inside = [&](int64_t dimension, at::IntArrayRef view) {
    std::vector<double> places(static_cast<size_t>(images.size(2 + dimension)));
    std::iota(places.begin(), places.end(), 0);
    return constant(places, at::kLong).view(view).lt(batch.true_shapes.select(1, dimension).view({-1, 1, 1, 1}));
  };
  const at::Tensor padding = inside(0, {1, 1, -1, 1}).logical_and(inside(1, {1, 1, 1, -1})).logical_not_();
  if (options_.pad_value.empty()) return images.masked_fill_(padding, 0);
  return at::where(padding,
                   constant(std::vector<double>(options_.pad_value.begin(), options_.pad_value.end()), images.options())
                       .view({1, -1, 1, 1}),
                   images);
}

ModelInput NetworkInput::of(const Batch& batch, bool training) const {
  check_size(batch);
  const bool resizes = batch.source_shapes.defined();  // what the device still has to resize is seen whole
  const at::Tensor seen = resizes ? batch.images : seen_of(batch.images);
  const at::Tensor images =
      at::tracer::impl::is_dispatch_enabled() ? by_operations(seen, batch) : by_kernel(seen, batch);
  return {images, batch.true_shapes, training ? batch.example_keys : at::Tensor()};
}

}  // namespace osprey::models
