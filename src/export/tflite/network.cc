#include "export/tflite/network.h"

#include <ATen/ATen.h>

#include <optional>

#include "export/normalization.h"
#include "export/tflite/rules.h"
#include "export/traced_network.h"
#include "osprey/base/error.h"

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

Value with_normalization(Graph& graph, const Value& picture, const Shape& shape, const at::Tensor& factor,
                         const at::Tensor& addend) {
  const Value scaled = graph.add(BuiltinOperator_MUL, {picture, graph.constant(factor)}, shape, MulOptionsT());
  return graph.add(BuiltinOperator_ADD, {scaled, graph.constant(addend)}, shape, AddOptionsT());
}

/// What a network takes, of a picture as `pixel / 127.5 - 1`.
Value normalized(Graph& graph, const Shape& shape, const nn::Normalization& wanted) {
  constexpr double kRounding = 1e-5;
  const at::Tensor factor = of_channels(wanted.scale) * kHalfRange, addend = of_channels(wanted.offset) + factor;
  const Value picture = graph.input(kInput, shape);
  if (at::allclose(factor, at::ones({3}), kRounding, kRounding) &&
      at::allclose(addend, at::zeros({3}), kRounding, kRounding))
    return picture;
  return with_normalization(graph, picture, shape, factor, addend);
}

/// A picture of pixels, as the values that its normalisation gives; where one pixel stands for zero, to within half a
/// step, as that is a whole number.
Value pixels(Graph& graph, const Shape& shape, const nn::Normalization& normalization) {
  Value numbers = graph.input(kInput, shape);
  const auto zero = pixel_of_zero(normalization);
  if (!zero) {
    graph.set_steps(numbers, TensorType_UINT8, {.scales = {1}});
    return with_normalization(graph, graph.add(BuiltinOperator_DEQUANTIZE, {numbers}, shape), shape,
                              of_channels(normalization.scale), of_channels(normalization.offset));
  }
  Steps steps{.scales = {normalization.scale[0]}, .zero = *zero};
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
  if (calibration != nullptr) quantize(traced, *calibration);
  const auto numbers = type_of_numbers(*traced);
  if (numbers) graph.set_type_of_numbers(*numbers);
  const Shape shape{1, height, width, 3};
  Value picture = (numbers ? pixels : normalized)(graph, shape, normalization_of(model, canvas));
  picture.is_map = true;
  return write_network<Operation>(graph, *traced, /*first_input=*/0, {picture}, rule);
}

}  // namespace osprey::tflite
