#include "export/tflite/network.h"

#include <ATen/ATen.h>

#include <cmath>
#include <optional>

#include "export/tflite/normalization.h"
#include "export/tflite/rules.h"
#include "export/traced_network.h"
#include "osprey/base/error.h"

namespace osprey::tflite {
namespace {

constexpr const char* kInput = "normalized_input_image_tensor";

/// Of what type the numbers of a network are that was trained for 8 bits; nothing where it was not. (Some that were not
/// round maps, but no weights.)
std::optional<TensorType> type_of_numbers(torch::jit::Graph& network) {
  std::optional<TensorType> result;
  for (const torch::jit::Node* node : network.nodes()) {
    if (node->kind() == c10::aten::fake_quantize_per_channel_affine) return TensorType_INT8;
    if (node->kind() == c10::aten::fake_quantize_per_tensor_affine && torch::jit::toIValue(node->input(0)))
      result = TensorType_UINT8;
  }
  return result;
}

/// What a network takes, of a picture as `pixel / 127.5 - 1`.
Value normalized(Graph& graph, const Shape& shape, const nn::Normalization& wanted) {
  constexpr double kRounding = 1e-5;
  const auto of_channels = [](const std::array<float, 3>& values) { return at::tensor(at::ArrayRef<float>(values)); };
  const at::Tensor factor = of_channels(wanted.scale) * kHalfRange, addend = of_channels(wanted.offset) + factor;
  const Value picture = graph.input(kInput, shape);
  if (at::allclose(factor, at::ones({3}), kRounding, kRounding) &&
      at::allclose(addend, at::zeros({3}), kRounding, kRounding))
    return picture;
  const Value scaled = graph.add(BuiltinOperator_MUL, {picture, graph.constant(factor)}, shape, MulOptionsT());
  return graph.add(BuiltinOperator_ADD, {scaled, graph.constant(addend)}, shape, AddOptionsT());
}

/// A picture of pixels, as the values that its normalisation gives to within half a step: the pixel that stands for
/// zero is a whole number, of two that are as near the larger one.
Value pixels(Graph& graph, const Shape& shape, const nn::Normalization& normalization) {
  const auto& [scales, offsets] = normalization;
  const auto differ = [](const std::array<float, 3>& values) {
    return values[0] != values[1] || values[0] != values[2];
  };
  if (differ(scales) || differ(offsets))
    throw ConfigError("with 8 bits TensorFlow Lite has one normalisation for all channels of a picture");
  constexpr float kRounding = 1e-3f;  // of what is half of a pixel
  const float scale = scales[0], zero = std::floor(-offsets[0] / scale + 0.5f + kRounding);
  if (!(zero >= 0 && zero <= 255))
    throw ConfigError("with 8 bits TensorFlow Lite wants a normalisation in which a pixel stands for zero");
  Steps steps{.scales = {scale}, .zero = static_cast<int64_t>(zero)};
  Value numbers = graph.input(kInput, shape);
  graph.set_steps(numbers, TensorType_UINT8, steps);
  if (graph.type_of_numbers() == TensorType_INT8) {
    steps.zero -= kSigned;
    numbers = graph.add(BuiltinOperator_QUANTIZE, {numbers}, shape);
    graph.set_steps(numbers, TensorType_INT8, steps);
  }
  return graph.add(BuiltinOperator_DEQUANTIZE, {numbers}, shape);
}

}  // namespace

std::vector<Value> add_network(Graph& graph, models::DetectionModel& model, const std::array<int64_t, 2>& canvas,
                               const std::function<c10::IValue(const Predictions&)>& function) {
  const auto [height, width] = canvas;
  const at::Tensor images = at::zeros({1, 3, height, width}).contiguous(at::MemoryFormat::ChannelsLast);
  const auto network = [&](torch::jit::Stack inputs) -> torch::jit::Stack {
    models::ModelInput input;
    input.images = inputs.at(0).toTensor();
    return {function(model.predict(input))};
  };
  const auto traced = traced_network(model, {images}, network);
  const auto numbers = type_of_numbers(*traced);
  if (numbers) graph.set_type_of_numbers(*numbers);
  const Shape shape{1, height, width, 3};
  Value picture = (numbers ? pixels : normalized)(graph, shape, normalization_of(model, canvas));
  picture.is_map = true;
  return write_network<Operation>(graph, *traced, /*first_input=*/0, {picture}, rule);
}

}  // namespace osprey::tflite
