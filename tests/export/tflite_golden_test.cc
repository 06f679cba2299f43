// The network of every public config, as TensorFlow Lite runs it, gives what it gives in libtorch.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "../src/export/tflite/network.h"
#include "export/random_networks.h"
#include "osprey/models/builder.h"
#include "support/runtimes.h"

namespace osprey {
namespace {

using namespace osprey::testing;

/// What decides about the detections: codes of boxes and logits of classes of all anchors.
struct CodesAndLogits {
  at::Tensor codes, logits;
};

CodesAndLogits in_libtorch(models::DetectionModel& model, const at::Tensor& images) {
  models::ModelInput input;
  input.images = images;
  const Predictions predictions = model.predict(input);
  return {predictions.box_encodings, predictions.class_logits};
}

/// picture  as the file takes it, [1, H, W, 3]
CodesAndLogits in_tflite(models::DetectionModel& model, const at::Tensor& picture) {
  tflite::Graph graph("network");
  const auto found =
      tflite::add_network(graph, model, model.input_size(), [&](const Predictions& predictions) -> c10::IValue {
        return c10::ivalue::Tuple::create({predictions.box_encodings, predictions.class_logits});
      });
  graph.output("codes", found.at(0));
  graph.output("logits", found.at(1));
  const auto outputs = run_tflite(graph.file(), {{"normalized_input_image_tensor", picture}});
  return {outputs.at("codes"), outputs.at("logits")};
}

void expect_the_same_in_tflite(const config::Pipeline& pipeline) {
  const auto model = models::build_model(pipeline.root());
  const at::NoGradGuard no_gradients;
  randomize(*model);
  model->eval();
  const auto [height, width] = model->input_size();
  const at::Tensor images = at::rand({1, 3, height, width}).mul_(2).sub_(1).contiguous(at::MemoryFormat::ChannelsLast);
  const CodesAndLogits found = in_tflite(*model, images.permute({0, 2, 3, 1})), expected = in_libtorch(*model, images);
  // Of what the outputs themselves differ by, rounding was 2e-5 at the most.
  EXPECT_LE(distance(found.codes, expected.codes), 1e-4 * expected.codes.std().item<float>());
  EXPECT_LE(distance(found.logits, expected.logits), 1e-4 * expected.logits.std().item<float>());
}

/// Whether the weights of each channel have a range of their own.
class TfliteOfRoundedNetworks : public ::testing::TestWithParam<bool> {};

TEST_P(TfliteOfRoundedNetworks, ComputesWith8Bits) {
  if (!has_tflite_runtime()) GTEST_SKIP() << kNoTfliteRuntime;
  const bool by_channels = GetParam();
  const at::NoGradGuard no_gradients;
  const auto model = quickstart_model({std::string("graph_rewriter={quantization {delay: 1 ") +
                                       (by_channels ? "weights_per_channel: true" : "") + "}}"});
  at::manual_seed(2);
  const at::Tensor pixels = at::randint(0, 256, {1, 256, 256, 3}, at::kByte),
                   images = ((pixels.to(at::kFloat) - 128) * (2.f / 255)).permute({0, 3, 1, 2});
  const CodesAndLogits expected = in_libtorch(*model, images),
                       moved = in_libtorch(*model, images * (1 + 1e-4 * at::randn_like(images))),
                       found = in_tflite(*model, by_channels ? (pixels.to(at::kInt) - 128).to(at::kChar) : pixels);
  // Both distances are those of values that fell to the other side of a border.
  EXPECT_LE(distance(found.codes, expected.codes), 2 * distance(moved.codes, expected.codes));
  EXPECT_LE(distance(found.logits, expected.logits), 2 * distance(moved.logits, expected.logits));
  EXPECT_GT(expected.codes.std().item<float>(), 5 * distance(found.codes, expected.codes));
}

INSTANTIATE_TEST_SUITE_P(Ranges, TfliteOfRoundedNetworks, ::testing::Bool(),
                         [](const auto& by_channels) { return by_channels.param ? "OfChannels" : "OfLayers"; });

class Tflite : public ::testing::TestWithParam<int> {};

constexpr int kNumParts = 4;  // for several processors

TEST_P(Tflite, HoldsTheNetworkOfEveryConfig) {
  if (!test_data()) GTEST_SKIP() << kNoTestData;
  if (!has_tflite_runtime()) GTEST_SKIP() << kNoTfliteRuntime;
  for (const std::filesystem::path& file : public_configs(GetParam(), kNumParts)) {
    SCOPED_TRACE(file.filename().string());
    expect_the_same_in_tflite(small(file));
  }
}
INSTANTIATE_TEST_SUITE_P(Parts, Tflite, ::testing::Range(0, kNumParts));

}  // namespace
}  // namespace osprey
