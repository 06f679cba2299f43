#include "export/tflite/network.h"

#include <ATen/ATen.h>

#include <optional>

#include "export/normalization.h"
#include "export/quantization.h"
#include "export/tflite/rules.h"
#include "export/traced_network.h"
#include "osprey/base/error.h"
#include "osprey/nn/fake_quantize.h"

namespace osprey::tflite {
namespace {

constexpr const char* kInput = "normalized_input_image_tensor";

/// Of what type the numbers of a network for 8 bits are; nothing of another. (Some of those round maps, but no
/// weights.)
std::optional<TensorType> type_of_numbers(torch::jit::Graph& network) {
  std::optional<TensorType> result;
  for (const torch::jit::Node* node : network.nodes()) {
    if (node->kind() == c10::aten::fake_quantize_per_channel_affine) return TensorType_INT8;
    if (node->kind() == c10::aten::fake_quantize_per_tensor_affine && torch::jit::toIValue(node->input(0)))
      result = TensorType_UINT8;
  }
  return result;
}

at::Tensor of_channels(const std::array<float, 3>& values) { return at::tensor(at::ArrayRef<float>(values)); }

/// What a network takes, of a picture as `pixel / 127.5 - 1`.
Value normalized(Graph& graph, const Shape& shape, const nn::Normalization& wanted) {
  constexpr double kRounding = 1e-5;
  const at::Tensor factor = of_channels(wanted.scale) * kHalfRange, addend = of_channels(wanted.offset) + factor;
  const Value picture = graph.input(kInput, shape);
  if (at::allclose(factor, at::ones({3}), kRounding, kRounding) &&
      at::allclose(addend, at::zeros({3}), kRounding, kRounding))
    return picture;
  const Value scaled = graph.add(BuiltinOperator_MUL, {picture, graph.constant(factor)}, shape, MulOptionsT());
  return graph.add(BuiltinOperator_ADD, {scaled, graph.constant(addend)}, shape, AddOptionsT());
}

/// A picture of pixels as numbers inside the network.
Value pixels_as_numbers(Graph& graph, const Shape& shape, Steps steps) {
  const Value picture = graph.input(kInput, shape);
  graph.set_steps(picture, TensorType_UINT8, steps);
  if (graph.type_of_numbers() == TensorType_UINT8) return picture;
  steps.zero -= kSigned;
  const Value numbers = graph.add(BuiltinOperator_QUANTIZE, {picture}, shape);
  graph.set_steps(numbers, TensorType_INT8, steps);
  return numbers;
}

/// The values of a picture that each channel's factor and addend give: a convolution, so that it can be by numbers with
/// a range for the weight of each channel.
Value by_channels(Graph& graph, const Value& pixels, const nn::Normalization& normalization) {
  Steps steps{.axis = 3};
  for (const float scale : normalization.scale) steps.scales.push_back(scale / nn::kLargestWeight);
  const Value numbers = graph.constant(at::full({1, 1, 1, 3}, nn::kLargestWeight, at::kChar), steps),
              weights = graph.add(BuiltinOperator_DEQUANTIZE, {numbers}, {1, 1, 1, 3});
  DepthwiseConv2DOptionsT options;
  options.padding = Padding_VALID;
  options.stride_h = options.stride_w = options.depth_multiplier = 1;
  return graph.add(BuiltinOperator_DEPTHWISE_CONV_2D,
                   {pixels, weights, graph.constant(of_channels(normalization.offset))}, graph.shape(pixels), options);
}

/// A picture of pixels, as the values that its normalisation gives; where one pixel stands for zero, to within half a
/// step, as that is a whole number.
Value pixels(Graph& graph, const Shape& shape, const nn::Normalization& normalization) {
  const auto zero = pixel_of_zero(normalization);
  const Steps steps = zero ? Steps{.scales = {normalization.scale[0]}, .zero = *zero} : Steps{.scales = {1}};
  const Value values = graph.add(BuiltinOperator_DEQUANTIZE, {pixels_as_numbers(graph, shape, steps)}, shape);
  return zero ? values : by_channels(graph, values, normalization);
}

}  // namespace

std::vector<Value> add_network(Graph& graph, models::DetectionModel& model, const std::array<int64_t, 2>& canvas,
                               const std::function<c10::IValue(const Predictions&)>& function,
                               const Calibration* calibration) {
  const auto [height, width] = canvas;
  const at::Tensor images = at::zeros({1, 3, height, width}).contiguous(at::MemoryFormat::ChannelsLast);
  const auto network = [&](torch::jit::Stack inputs) -> torch::jit::Stack {
    models::ModelInput input;
    input.images = inputs.at(0).toTensor();
    return {function(model.predict(input))};
  };
  auto traced = traced_network(model, {images}, network);
  if (calibration != nullptr) traced = quantized(*traced, *calibration);
  const auto numbers = type_of_numbers(*traced);
  if (numbers) graph.set_type_of_numbers(*numbers);
  const Shape shape{1, height, width, 3};
  Value picture = (numbers ? pixels : normalized)(graph, shape, normalization_of(model, canvas));
  picture.is_map = true;
  return write_network<Operation>(graph, *traced, /*first_input=*/0, {picture}, rule);
}

}  // namespace osprey::tflite
