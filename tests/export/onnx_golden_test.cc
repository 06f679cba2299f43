// The network of every public config, as ONNX, gives what it gives in libtorch.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "../src/export/onnx/model.h"
#include "../src/export/onnx/network.h"
#include "../src/export/served_module.h"
#include "export/random_networks.h"
#include "osprey/config/pipeline.h"
#include "osprey/models/builder.h"
#include "support/golden.h"
#include "support/runtimes.h"

namespace osprey {
namespace {

namespace fs = std::filesystem;
using namespace osprey::testing;

/// Only the network: from the canvas to boxes and scores of all anchors.
std::string network_alone(const torch::jit::Module& served, const at::Tensor& images, const at::Tensor& shapes) {
  OnnxGraph graph("network");
  const auto input = [&](const char* name, const at::Tensor& value) {
    std::vector<OnnxGraph::Dimension> shape(value.sizes().begin(), value.sizes().end());
    return graph.input(name, value.scalar_type(), shape);
  };
  const std::vector<OnnxValue> outputs =
      add_network(graph, *served.attr("net").toModule().get_method("forward").graph(),
                  {input("images", images), input("shapes", shapes)});
  graph.output("boxes", outputs.at(0), at::kFloat, {int64_t{1}, "anchors", "columns", int64_t{4}});
  graph.output("scores", outputs.at(1), at::kFloat, {int64_t{1}, "anchors", "classes"});
  return graph.file();
}

/// Boxes and scores of all anchors. Boxes of random weights may be as large as float32 can say.
struct Outputs {
  at::Tensor boxes, scores;
};
Outputs outputs(const at::Tensor& boxes, const at::Tensor& scores) { return {boxes.clamp(-10, 10), scores}; }

/// rounded  the network is rounded to 8 bits first
/// returns  whether the network's scores differ by so much more than rounding moves them that they show something
bool expect_the_same(const config::Pipeline& pipeline, bool rounded = false) {
  const auto model = models::build_model(pipeline.root());
  const at::NoGradGuard no_gradients;
  randomize(*model);
  model->eval();
  const auto [height, width] = model->input_size();
  const at::Tensor images = at::randint(0, 256, {1, 3, height, width}, at::kFloat),
                   shapes = at::tensor({height - 13, width - 50}, at::kLong).unsqueeze(0);
  std::optional<Calibration> calibration;
  if (rounded) {
    Batch picture;
    picture.images = images.to(at::kByte);
    picture.true_shapes = shapes;
    calibration = calibrated(*model, {picture});
  }
  const torch::jit::Module served = served_module(*model, {height, width, 0, 0}, 1, at::MemoryFormat::ChannelsLast,
                                                  calibration ? &*calibration : nullptr);
  EXPECT_NO_THROW(onnx_model(served, 1)) << "ONNX's checker, on the whole";
  const auto in_libtorch = [&](const at::Tensor& pictures) {
    const auto both = torch::jit::Module(served.attr("net").toModule()).forward({pictures, shapes}).toTuple();
    return outputs(both->elements()[0].toTensor(), both->elements()[1].toTensor());
  };
  const auto by_onnx = run_onnx(network_alone(served, images, shapes), {{"images", images}, {"shapes", shapes}});
  const Outputs found = outputs(by_onnx.at("boxes"), by_onnx.at("scores")), expected = in_libtorch(images),
                moved = in_libtorch(images * (1 + 1e-4 * at::randn_like(images)));
  // Some networks of random weights make much of rounding; so they do of a pixel that is a little brighter.
  constexpr double kRounding = 1e-7;      // of the outputs themselves
  const double luck = rounded ? 1.5 : 1;  // with which values fall to either side of a border: up to 1.02
  EXPECT_LE(distance(found.boxes, expected.boxes), luck * distance(moved.boxes, expected.boxes) + kRounding);
  EXPECT_LE(distance(found.scores, expected.scores), luck * distance(moved.scores, expected.scores) + kRounding);
  return expected.scores.std().item<float>() > 100 * distance(moved.scores, expected.scores);
}

/// Whether the weights of each channel have a range of their own.
class OnnxOfRoundedNetworks : public ::testing::TestWithParam<bool> {};

TEST_P(OnnxOfRoundedNetworks, HoldsWeightsAsNumbersOf8Bits) {
  const auto served = [](const std::vector<std::string>& changes) {
    return served_module(*quickstart_model(changes), {256, 256, 0, 0}, 1);
  };
  const std::string per_channel = GetParam() ? " weights_per_channel: true" : "";
  const torch::jit::Module rounded = served({"graph_rewriter={quantization {delay: 1" + per_channel + "}}"}),
                           floats = served({});
  int64_t of_all = 0, of_channels = 0;
  for (const auto* node : rounded.attr("net").toModule().get_method("forward").graph()->nodes()) {
    of_all += node->kind() == c10::aten::fake_quantize_per_tensor_affine;
    of_channels += node->kind() == c10::aten::fake_quantize_per_channel_affine;
  }
  EXPECT_EQ(of_all + of_channels, 70) << "weights and maps of 35 convolutions";
  EXPECT_EQ(of_channels, GetParam() ? 35 : 0) << "weights";
  EXPECT_LT(static_cast<double>(onnx_model(rounded, 1).size()),
            0.35 * static_cast<double>(onnx_model(floats, 1).size()));

  if (!has_onnx_runtime()) GTEST_SKIP() << kNoOnnxRuntime;
  at::manual_seed(2);
  const at::Tensor images = at::randint(0, 256, {1, 3, 256, 256}, at::kFloat),
                   shapes = at::tensor({256, 256}, at::kLong).unsqueeze(0);
  const auto in_libtorch = [&](const at::Tensor& pictures) {
    const auto both = torch::jit::Module(rounded.attr("net").toModule()).forward({pictures, shapes}).toTuple();
    return outputs(both->elements()[0].toTensor(), both->elements()[1].toTensor());
  };
  const auto by_onnx = run_onnx(network_alone(rounded, images, shapes), {{"images", images}, {"shapes", shapes}});
  const Outputs found = outputs(by_onnx.at("boxes"), by_onnx.at("scores")), expected = in_libtorch(images),
                moved = in_libtorch(images * (1 + 1e-4 * at::randn_like(images)));
  // Both distances are those of values that fell to the other side of a border: they were alike to 4 %.
  EXPECT_LE(distance(found.boxes, expected.boxes), 2 * distance(moved.boxes, expected.boxes));
  EXPECT_LE(distance(found.scores, expected.scores), 2 * distance(moved.scores, expected.scores));
  EXPECT_GT(expected.boxes.std().item<float>(), 5 * distance(found.boxes, expected.boxes));
}

INSTANTIATE_TEST_SUITE_P(Ranges, OnnxOfRoundedNetworks, ::testing::Bool(),
                         [](const auto& per_channel) { return per_channel.param ? "OfChannels" : "OfLayers"; });

class Onnx : public ::testing::TestWithParam<int> {};

constexpr int kParts = 4;  // for several processors

TEST_P(Onnx, HoldsTheNetworkOfEveryConfig) {
  if (!test_data()) GTEST_SKIP() << kNoTestData;
  if (!has_onnx_runtime()) GTEST_SKIP() << kNoOnnxRuntime;
  int seen = 0, telling = 0;
  for (const fs::path& file : public_configs(GetParam(), kParts)) {
    SCOPED_TRACE(file.filename().string());
    telling += expect_the_same(small(file));
    ++seen;
  }
  EXPECT_GE(2 * telling, seen);
}
TEST_P(Onnx, HoldsTheRoundedNetworkOfEveryConfig) {
  if (!test_data()) GTEST_SKIP() << kNoTestData;
  if (!has_onnx_runtime()) GTEST_SKIP() << kNoOnnxRuntime;
  for (const fs::path& file : public_configs(GetParam(), kParts)) {
    SCOPED_TRACE(file.filename().string());
    expect_the_same(small(file), /*rounded=*/true);
  }
}
INSTANTIATE_TEST_SUITE_P(Parts, Onnx, ::testing::Range(0, kParts));

}  // namespace
}  // namespace osprey
