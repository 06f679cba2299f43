#include "export/tflite/network.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "export/normalization.h"
#include "export/tflite/rules.h"
#include "export/traced_network.h"
#include "osprey/base/error.h"

namespace osprey::tflite {
namespace {

constexpr const char* kInput = "normalized_input_image_tensor";

/// Of what type the numbers of a network are that was trained for 8 bits; nothing where it was not.
std::optional<TensorType> type_of_numbers(torch::jit::Graph& network) {
  std::optional<TensorType> result;
  for (const torch::jit::Node* node : network.nodes()) {
    if (node->kind() == c10::aten::fake_quantize_per_channel_affine) return TensorType_INT8;
    if (node->kind() == c10::aten::fake_quantize_per_tensor_affine) result = TensorType_UINT8;
  }
  return result;
}

/// A picture of pixels, as the values that its normalisation gives to within half a step.
Value pixels(Graph& graph, const Shape& shape, const Normalization& normalization) {
  if (!normalization.is_of_all_channels())
    throw ConfigError("with 8 bits TensorFlow Lite has one normalisation for all channels of a picture");
  const float scale = normalization.scale[0];
  const auto zero = std::clamp<int64_t>(std::lround(-normalization.offset[0] / scale), 0, 255);
  const Value numbers = graph.input(kInput, shape);
  const int64_t first = graph.type_of_numbers() == TensorType_INT8 ? -128 : 0;
  graph.set_steps(numbers, graph.type_of_numbers(), {.scales = {scale}, .zero = zero + first});
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
  Value picture = numbers ? pixels(graph, shape, normalization_of(model, canvas)) : graph.input(kInput, shape);
  picture.is_map = true;
  return write_network<Operation>(graph, *traced, /*first_input=*/0, {picture}, rule);
}

}  // namespace osprey::tflite
