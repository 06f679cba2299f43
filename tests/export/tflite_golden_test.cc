// The network of every public config, as TensorFlow Lite runs it, gives what it gives in libtorch.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <set>
#include <string>

#include "../src/export/quantization.h"
#include "../src/export/tflite/network.h"
#include "../src/export/traced_network.h"
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

/// A picture of noise, as a network sees it [1, 3, H, W] and as a file takes it [1, H, W, 3].
struct Picture {
  at::Tensor seen, taken;
};

Picture noise(models::DetectionModel& model) {
  const auto [height, width] = model.input_size();
  Batch batch;
  batch.images = at::randint(0, 256, {1, 3, height, width}, at::kByte).contiguous(at::MemoryFormat::ChannelsLast);
  batch.true_shapes = at::tensor({height, width}, at::kLong).unsqueeze(0);
  return {model.preprocess(batch).images, (batch.images.to(at::kFloat) / 127.5 - 1).permute({0, 2, 3, 1})};
}

CodesAndLogits in_libtorch(models::DetectionModel& model, const at::Tensor& images) {
  models::ModelInput input;
  input.images = images;
  const Predictions predictions = model.predict(input);
  return {predictions.box_encodings, predictions.class_logits};
}

c10::IValue codes_and_logits(const Predictions& predictions) {
  return c10::ivalue::Tuple::create({predictions.box_encodings, predictions.class_logits});
}

std::string file_of(models::DetectionModel& model, const Calibration* calibration = nullptr) {
  tflite::Graph graph("network");
  const auto found = tflite::add_network(graph, model, model.input_size(), codes_and_logits, calibration);
  graph.output("codes", found.at(0));
  graph.output("logits", found.at(1));
  return graph.file();
}

/// picture  as the file takes it, [1, H, W, 3]
CodesAndLogits in_tflite(const std::string& file, const at::Tensor& picture) {
  const auto outputs = run_tflite(file, {{"normalized_input_image_tensor", picture}});
  return {outputs.at("codes"), outputs.at("logits")};
}

void expect_the_same_in_tflite(const config::Pipeline& pipeline) {
  const auto model = models::build_model(pipeline.root());
  const at::NoGradGuard no_gradients;
  randomize(*model);
  model->eval();
  const auto [seen, taken] = noise(*model);
  const CodesAndLogits found = in_tflite(file_of(*model), taken), expected = in_libtorch(*model, seen);
  // Of what the outputs themselves differ by, rounding was 2e-5 at the most.
  EXPECT_LE(distance(found.codes, expected.codes), 1e-4 * expected.codes.std().item<float>());
  EXPECT_LE(distance(found.logits, expected.logits), 1e-4 * expected.logits.std().item<float>());
}

/// Operations of a file that read floats, by their names, without those that make numbers of them.
std::set<std::string> operations_on_floats(const std::string& file) {
  const auto model = std::unique_ptr<tflite::ModelT>(tflite::GetModel(file.data())->UnPack());
  const tflite::SubGraphT& graph = *model->subgraphs[0];
  std::set<std::string> result;
  for (const auto& made : graph.operators)
    if (graph.tensors[static_cast<size_t>(made->inputs[0])]->type == tflite::TensorType_FLOAT32)
      result.insert(EnumNameBuiltinOperator(model->operator_codes[made->opcode_index]->builtin_code));
  return result;
}

/// The number of the picture that stands for zero.
int64_t zero_of_picture(const std::string& file) {
  const auto model = std::unique_ptr<tflite::ModelT>(tflite::GetModel(file.data())->UnPack());
  const tflite::SubGraphT& graph = *model->subgraphs[0];
  return graph.tensors[static_cast<size_t>(graph.inputs[0])]->quantization->zero_point[0];
}

/// What computes with floats behind the heads.
const std::set<std::string> kBehindTheHeads = {"CONCATENATION", "RESHAPE"};

/// The quickstart's detector with changes, for 8 bits.
struct RoundedNetwork {
  const char* name;
  std::vector<std::string> changes;
  bool by_channels = true;  ///< whether the weights of each channel have a range of their own
  /// What computes with floats: what is behind the heads; in Inception also what reads maps of different ranges.
  std::set<std::string> on_floats = kBehindTheHeads;
};

void PrintTo(const RoundedNetwork& network, std::ostream* out) { *out << network.name; }

class TfliteOfRoundedNetworks : public ::testing::TestWithParam<RoundedNetwork> {};

TEST_P(TfliteOfRoundedNetworks, ComputesWith8Bits) {
  auto [name, changes, by_channels, on_floats] = GetParam();
  changes.push_back(std::string("graph_rewriter={quantization {delay: 1 ") +
                    (by_channels ? "weights_per_channel: true" : "") + "}}");
  const at::NoGradGuard no_gradients;
  const auto model = quickstart_model(changes);
  const std::string file = file_of(*model);
  EXPECT_EQ(operations_on_floats(file), on_floats);
  EXPECT_EQ(zero_of_picture(file), 128);

  if (!has_tflite_runtime()) GTEST_SKIP() << kNoTfliteRuntime;
  at::manual_seed(2);
  const at::Tensor pixels = at::randint(0, 256, {1, 256, 256, 3}, at::kByte),
                   images = ((pixels.to(at::kFloat) - 128) * (2.f / 255)).permute({0, 3, 1, 2});
  const CodesAndLogits expected = in_libtorch(*model, images),
                       moved = in_libtorch(*model, images * (1 + 1e-4 * at::randn_like(images))),
                       found = in_tflite(file, pixels);
  // Both distances are those of values that fell to the other side of a border.
  EXPECT_LE(distance(found.codes, expected.codes), 2 * distance(moved.codes, expected.codes));
  EXPECT_LE(distance(found.logits, expected.logits), 2 * distance(moved.logits, expected.logits));
  EXPECT_GT(expected.codes.std().item<float>(), 3 * distance(found.codes, expected.codes));
}

const std::string kType = "model.ssd.feature_extractor.type=";

INSTANTIATE_TEST_SUITE_P(
    Networks, TfliteOfRoundedNetworks,
    ::testing::Values(RoundedNetwork{"OneRangeForALayer", {}, false}, RoundedNetwork{"ARangeForEachChannel", {}},
                      RoundedNetwork{"PoolingPyramid", {kType + "ssd_mobilenet_v1_ppn"}},
                      RoundedNetwork{"Pyramid",
                                     {kType + "ssd_mobilenet_v1_fpn", "model.ssd.feature_extractor.num_layers=",
                                      "model.ssd.anchor_generator={multiscale_anchor_generator {aspect_ratios: 1}}"}},
                      RoundedNetwork{"InvertedResiduals", {kType + "ssd_mobilenet_v2"}},
                      RoundedNetwork{"EdgeTpu", {kType + "ssd_mobilenet_edgetpu"}},
                      RoundedNetwork{
                          "Inception",
                          {kType + "ssd_inception_v2"},
                          true,
                          {"AVERAGE_POOL_2D", "CONCATENATION", "CONV_2D", "MAX_POOL_2D", "QUANTIZE", "RESHAPE"}}),
    [](const auto& network) { return network.param.name; });

std::shared_ptr<models::DetectionModel> spaghetti_net() {
  return quickstart_model(
      {"model.ssd.feature_extractor={type: 'ssd_spaghettinet' spaghettinet_arch_name: "
       "'spaghettinet_edgetpu_s' conv_hyperparams {initializer {truncated_normal_initializer {}}}}",
       "model.ssd.anchor_generator={ssd_anchor_generator {num_layers: 5 aspect_ratios: 1}}"});
}

TEST(TfliteOfSpaghettiNet, TakesFloatsAndRoundsSomeMaps) {
  const at::NoGradGuard no_gradients;
  const auto model = spaghetti_net();
  const std::string file = file_of(*model);
  const std::set<std::string> on_floats = operations_on_floats(file);
  EXPECT_TRUE(on_floats.contains("CONV_2D") && on_floats.contains("QUANTIZE")) << ::testing::PrintToString(on_floats);
  if (!has_tflite_runtime()) GTEST_SKIP() << kNoTfliteRuntime;
  at::manual_seed(2);
  const auto [seen, taken] = noise(*model);
  const CodesAndLogits expected = in_libtorch(*model, seen),
                       moved = in_libtorch(*model, seen * (1 + 1e-4 * at::randn_like(seen))),
                       found = in_tflite(file, taken);
  EXPECT_LE(distance(found.codes, expected.codes), 2 * distance(moved.codes, expected.codes));
  EXPECT_LE(distance(found.logits, expected.logits), 2 * distance(moved.logits, expected.logits));
}

/// What the model's network makes of images in libtorch, after it has been rounded.
CodesAndLogits rounded_in_libtorch(models::DetectionModel& model, const Calibration& calibration,
                                   const at::Tensor& images) {
  const auto network = [&](torch::jit::Stack inputs) -> torch::jit::Stack {
    models::ModelInput input;
    input.images = inputs.at(0).toTensor();
    return {codes_and_logits(model.predict(input))};
  };
  auto graph = traced_network(model, {images}, network);
  graph = quantized(*graph, calibration);
  torch::jit::Stack stack{images};
  torch::jit::InterpreterState(torch::jit::Code(graph, "network")).run(stack);
  const auto results = stack.at(0).toTuple();
  return {results->elements()[0].toTensor(), results->elements()[1].toTensor()};
}

/// Expects that a network which is rounded after its training gives in TensorFlow Lite what it gives in libtorch.
/// on_floats  the operations that compute with floats there
void expect_rounded_in_tflite(models::DetectionModel& model, const std::set<std::string>& on_floats) {
  const at::NoGradGuard no_gradients;
  const auto [height, width] = model.input_size();
  Batch batch;
  batch.images = at::randint(0, 256, {1, 3, height, width}, at::kByte).contiguous(at::MemoryFormat::ChannelsLast);
  batch.true_shapes = at::tensor({height, width}, at::kLong).unsqueeze(0);
  const Calibration calibration = calibrated(model, {batch});
  const std::string file = file_of(model, &calibration);
  EXPECT_EQ(operations_on_floats(file), on_floats);

  const at::Tensor images = model.preprocess(batch).images;
  const CodesAndLogits exact = in_libtorch(model, images), expected = rounded_in_libtorch(model, calibration, images),
                       moved = rounded_in_libtorch(model, calibration, images * (1 + 1e-4 * at::randn_like(images))),
                       found = in_tflite(file, batch.images.permute({0, 2, 3, 1}));
  // Both distances are those of values that fell to the other side of a border: 0.9 to 1.25 of one another.
  EXPECT_LE(distance(found.codes, expected.codes), 1.6 * distance(moved.codes, expected.codes));
  EXPECT_LE(distance(found.logits, expected.logits), 1.6 * distance(moved.logits, expected.logits));
  // What rounding costs grows with the depth of what has no limit: 0.43 of the spread at the most, in MnasFPN.
  EXPECT_LE(distance(expected.codes, exact.codes), 0.6 * exact.codes.std().item<double>());
  EXPECT_LE(distance(expected.logits, exact.logits), 0.6 * exact.logits.std().item<double>());
}

TEST(TfliteOfSpaghettiNet, ComputesWith8BitsOnceItIsRounded) {
  if (!has_tflite_runtime()) GTEST_SKIP() << kNoTfliteRuntime;
  std::set<std::string> on_floats = kBehindTheHeads;
  on_floats.insert("QUANTIZE");  // of maps put behind one another, each rounded by its own range
  expect_rounded_in_tflite(*spaghetti_net(), on_floats);
}

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
TEST_P(Tflite, HoldsTheRoundedNetworkOfEveryConfig) {
  if (!test_data()) GTEST_SKIP() << kNoTestData;
  if (!has_tflite_runtime()) GTEST_SKIP() << kNoTfliteRuntime;
  for (const std::filesystem::path& file : public_configs(GetParam(), kNumParts)) {
    SCOPED_TRACE(file.filename().string());
    const config::Pipeline pipeline = small(file);
    const auto model = models::build_model(pipeline.root());
    {
      const at::NoGradGuard no_gradients;
      randomize(*model);
    }
    model->eval();
    expect_rounded_in_tflite(*model, kBehindTheHeads);
  }
}
INSTANTIATE_TEST_SUITE_P(Parts, Tflite, ::testing::Range(0, kNumParts));

}  // namespace
}  // namespace osprey
