#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/serialization/import.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include "../src/export/calibration.h"
#include "../src/export/cpu_convolutions.h"
#include "../src/export/cpu_roundings.h"
#include "../src/export/model_card.h"
#include "../src/export/onnx/graph.h"
#include "../src/export/onnx/model.h"
#include "../src/export/parity.h"
#include "../src/export/served_module.h"
#include "../src/export/tflite/graph.h"
#include "../src/export/tflite/model.h"
#include "osprey/base/error.h"
#include "osprey/base/logging.h"
#include "osprey/checkpoint/checkpoint.h"
#include "osprey/config/label_map.h"
#include "osprey/config/pipeline.h"
#include "osprey/data/image_resizer.h"
#include "osprey/data/record_file.h"
#include "osprey/export/detector.h"
#include "osprey/export/exporter.h"
#include "osprey/export/latency.h"
#include "osprey/export/tiles.h"
#include "osprey/models/builder.h"
#include "support/example_record.h"
#include "support/golden.h"
#include "support/runtimes.h"
#include "support/temp_dir.h"
#include "tflite_metadata_schema_generated.h"

namespace osprey {
namespace {

namespace fs = std::filesystem;
using osprey::testing::expect_close;
using osprey::testing::TempDir;
using ::testing::HasSubstr;
using ::testing::Not;

/// The quickstart's detector at a size that runs in milliseconds, with changes. The low threshold lets thousands of
/// candidates through, so that suppression has much to decide.
config::Pipeline toy_pipeline(std::vector<std::string> changes = {}) {
  changes.insert(changes.begin(), {"model.ssd.image_resizer.fixed_shape_resizer.height=96",
                                   "model.ssd.image_resizer.fixed_shape_resizer.width=96",
                                   "model.ssd.post_processing.batch_non_max_suppression.score_threshold=0.001"});
  return config::load_pipeline(OSPREY_SOURCE_DIR "/configs/quickstart.config", changes);
}

/// box_spread  how much further boxes are from their anchors than those of fresh predictors
std::shared_ptr<models::DetectionModel> evaluated_model(const config::Pipeline& pipeline, uint64_t seed = 0,
                                                        double box_spread = 1) {
  auto model = models::build_model(pipeline.root(), {.seed = seed});
  // Fresh predictors score all anchors alike; ties would make the order of suppression a matter of rounding.
  const at::NoGradGuard no_gradients;
  for (const auto& [name, variable] : models::variables(*model)) {
    if (name.find("ClassPredictor.weights") != std::string::npos) at::Tensor(variable).mul_(50);
    if (name.find("BoxEncodingPredictor.weights") != std::string::npos) at::Tensor(variable).mul_(box_spread);
  }
  model->eval();
  return model;
}

/// Pictures with edges, so that scores differ from place to place.
std::vector<at::Tensor> pictures() {
  at::Generator generator = at::detail::createCPUGenerator(7);
  std::vector<at::Tensor> result;
  for (const auto& [height, width] : std::vector<std::pair<int64_t, int64_t>>{{96, 96}, {61, 130}, {200, 77}}) {
    at::Tensor coarse = at::randint(0, 256, {1, 3, 7, 9}, generator, at::kFloat);
    result.push_back(
        at::upsample_nearest2d(coarse, {height, width}).squeeze(0).permute({1, 2, 0}).to(at::kByte).contiguous());
  }
  return result;
}

std::unique_ptr<data::ImageResizer> resizer_of(const config::Pipeline& pipeline) {
  const auto& ssd = pipeline.message->model().ssd();
  return data::build_image_resizer(config::ConfigNode<proto::ImageResizer>(ssd.image_resizer()));
}

/// Writes a checkpoint of the model, and the label map, as training does.
void save_run(const models::DetectionModel& model, const TempDir& folder) {
  checkpoint::Checkpoint content;
  for (const auto& [name, tensor] : models::variables(model)) content.tensors["model/" + name] = tensor;
  content.attributes["step"] = "5";
  checkpoint::write(folder / "ckpt-5.osprey", content);
  config::LabelMap labels;
  for (int id = 1; id <= model.num_classes(); ++id) labels.items.push_back({id, "class" + std::to_string(id), ""});
  config::write_label_map(labels, folder / "label_map.pbtxt");
}

struct Variant {
  const char* name;
  std::vector<std::string> changes;
  ServedResize resize;
  int64_t batch_size;
  at::MemoryFormat memory_format = at::MemoryFormat::ChannelsLast;
  double box_spread = 1;
};

void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

class ServedModule : public ::testing::TestWithParam<Variant> {};

TEST_P(ServedModule, FindsWhatTheModelFinds) {
  const config::Pipeline pipeline = toy_pipeline(GetParam().changes);
  const auto model = evaluated_model(pipeline, 0, GetParam().box_spread);
  torch::jit::Module served = served_module(*model, GetParam().resize, GetParam().batch_size, GetParam().memory_format);
  const ExportReport report = compare(*model, *resizer_of(pipeline), served, GetParam().batch_size, pictures(), 1e-4);
  EXPECT_EQ(report.images, 3);
  EXPECT_GE(report.detections, 60) << "too few detections to show anything";
}

TEST_P(ServedModule, SaysWhichSuppressionItDoes) {
  const auto model = evaluated_model(toy_pipeline(GetParam().changes));
  const boxes::NmsOptions of_model = model->nms_options(),
                          of_file = served_nms_options(served_module(*model, GetParam().resize, 1));
  EXPECT_EQ(of_file.score_threshold, of_model.score_threshold);
  EXPECT_EQ(of_file.iou_threshold, of_model.iou_threshold);
  EXPECT_EQ(of_file.max_total_detections, of_model.max_total_detections);
  EXPECT_EQ(of_file.soft_nms_sigma, of_model.soft_nms_sigma);
  EXPECT_EQ(of_file.class_agnostic, of_model.class_agnostic);
  EXPECT_EQ(of_file.change_coordinate_frame, of_model.change_coordinate_frame);
  EXPECT_EQ(of_file.combined, of_model.combined);
  EXPECT_EQ(of_file.padding_score, of_model.padding_score);
  if (!of_model.class_agnostic) {
    EXPECT_EQ(of_file.max_detections_per_class, of_model.max_detections_per_class);
  }
}

/// The detections of picture b in what a served module or ONNX Runtime gave, best first: class, score, four corners.
std::vector<std::array<float, 6>> rows(const std::map<std::string, at::Tensor>& output, int64_t b) {
  std::vector<std::array<float, 6>> result;
  const auto of = [&](const char* name) { return output.at(name)[b]; };
  for (int64_t i = 0; i < of("num_detections").item<int64_t>(); ++i) {
    const at::Tensor box = of("detection_boxes")[i];
    result.push_back({of("detection_classes")[i].item<float>(), of("detection_scores")[i].item<float>(),
                      box[0].item<float>(), box[1].item<float>(), box[2].item<float>(), box[3].item<float>()});
  }
  return result;
}

TEST_P(ServedModule, AsOnnxFindsTheSame) {
  if (!testing::has_onnx_runtime()) GTEST_SKIP() << testing::kNoOnnxRuntime;
  const auto model = evaluated_model(toy_pipeline(GetParam().changes), 0, GetParam().box_spread);
  torch::jit::Module served = served_module(*model, GetParam().resize, GetParam().batch_size, GetParam().memory_format);
  if (model->nms_options().soft_nms_sigma > 0) {
    EXPECT_THAT([&] { onnx_model(served, GetParam().batch_size); },
                ::testing::ThrowsMessage<ConfigError>(HasSubstr("soft_nms_sigma")));
    return;
  }
  const std::string file = onnx_model(served, GetParam().batch_size);
  for (const at::Tensor& picture : pictures()) {
    std::vector<at::Tensor> batch{picture};
    while (static_cast<int64_t>(batch.size()) < GetParam().batch_size) batch.push_back(picture.flip(0));
    const at::Tensor images = at::stack(batch);
    std::map<std::string, at::Tensor> by_file;
    for (const auto& item : served.forward({images}).toGenericDict())
      by_file[item.key().toStringRef()] = item.value().toTensor();
    const std::map<std::string, at::Tensor> by_onnx = testing::run_onnx(file, {{"input_tensor", images}});
    ASSERT_EQ(by_onnx.size(), by_file.size());
    for (const auto& [name, value] : by_file) ASSERT_EQ(by_onnx.at(name).sizes(), value.sizes()) << name;
    for (int64_t b = 0; b < GetParam().batch_size; ++b) {
      const auto expected = rows(by_file, b), found = rows(by_onnx, b);
      ASSERT_EQ(found.size(), expected.size());
      // Scores that are alike to within rounding may come in another order, and the last may be another of those.
      const float last = expected.empty() ? 0 : expected.back()[1];
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_NEAR(found[i][1], expected[i][1], 1e-5) << i;
        const auto same = [&](const auto& other) {
          for (size_t k = 0; k < 6; ++k)
            if (std::abs(other[k] - expected[i][k]) > 1e-4) return false;
          return true;
        };
        EXPECT_TRUE(std::any_of(found.begin(), found.end(), same) || expected[i][1] <= last + 1e-5) << i;
      }
      for (const char* name : {"detection_boxes", "detection_scores", "detection_classes"}) {
        const auto beyond = [&](const auto& output) {
          return output.at(name)[b].slice(0, static_cast<int64_t>(expected.size()));
        };
        EXPECT_TRUE(beyond(by_onnx).equal(beyond(by_file))) << name << " of rows that stand for nothing";
      }
    }
  }
}

/// Calls look(node) for all that a served model does.
void for_each_node(const torch::jit::Module& served, const std::function<void(torch::jit::Node&)>& look) {
  const std::function<void(at::ArrayRef<torch::jit::Block*>)> visit = [&](at::ArrayRef<torch::jit::Block*> blocks) {
    for (torch::jit::Block* block : blocks)
      for (torch::jit::Node* node : block->nodes()) {
        look(*node);
        visit(node->blocks());
      }
  };
  for (const torch::jit::Module& part : served.modules())
    for (const auto& method : part.get_methods()) visit({method.graph()->block()});
}

// The weights go where the file is loaded to; a device that is written into the graph would be asked for there, too.
TEST_P(ServedModule, NamesNoDevice) {
  const auto model = evaluated_model(toy_pipeline(GetParam().changes));
  for_each_node(served_module(*model, GetParam().resize, GetParam().batch_size, GetParam().memory_format),
                [](torch::jit::Node& node) {
                  if (node.kind() != c10::prim::Constant || node.output()->type() != c10::DeviceObjType::get()) return;
                  for (const torch::jit::Use& use : node.output()->uses())
                    ADD_FAILURE() << use.user->kind().toQualString() << " on " << node.s(c10::attr::value);
                });
}

const std::string kNms = "model.ssd.post_processing.batch_non_max_suppression.";

INSTANTIATE_TEST_SUITE_P(
    Variants, ServedModule,
    ::testing::Values(Variant{"HardSuppression", {}, {96, 96, 0, 0}, 1}, Variant{"Batch", {}, {96, 96, 0, 0}, 2},
                      Variant{"Contiguous", {}, {96, 96, 0, 0}, 2, at::MemoryFormat::Contiguous},
                      Variant{"SoftSuppression", {kNms + "soft_nms_sigma=0.3"}, {96, 96, 0, 0}, 1},
                      Variant{"ClassAgnostic", {kNms + "use_class_agnostic_nms=true"}, {96, 96, 0, 0}, 1},
                      Variant{"Combined", {kNms + "use_combined_nms=true"}, {96, 96, 0, 0}, 1},
                      Variant{"OnTheCanvas", {kNms + "change_coordinate_frame=false"}, {96, 96, 0, 0}, 1},
                      Variant{"StaticShapes", {kNms + "use_static_shapes=true"}, {96, 96, 0, 0}, 3},
                      Variant{"FewPerClass", {kNms + "max_detections_per_class=8"}, {96, 96, 0, 0}, 1},
                      Variant{"ManyLieOutside",
                              {"model.ssd.num_classes=1", kNms + "iou_threshold=1", kNms + "max_total_detections=60",
                               kNms + "max_detections_per_class=60"},
                              {96, 96, 0, 0},
                              1,
                              at::MemoryFormat::ChannelsLast,
                              2000},
                      Variant{"FewAreLeft", {kNms + "iou_threshold=0.02"}, {96, 96, 0, 0}, 1},
                      Variant{"LongList",
                              {kNms + "max_total_detections=1500", kNms + "max_detections_per_class=1500"},
                              {96, 96, 0, 0},
                              1},
                      Variant{"StatisticsPerChannel",
                              {"model.ssd.feature_extractor.image_normalization={mean: [120, 110, 100] "
                               "deviation: [60, 61, 62]}"},
                              {96, 96, 0, 0},
                              1},
                      Variant{"CalibratedScores",
                              {"model.ssd.post_processing.calibration_config={function_approximation {x_y_pairs {"
                               "x_y_pair {x: 0 y: 0.01} x_y_pair {x: 0.4 y: 0.5} x_y_pair {x: 1 y: 0.9}}}}"},
                              {96, 96, 0, 0},
                              1},
                      Variant{"Softmax", {"model.ssd.post_processing.score_converter=SOFTMAX"}, {96, 96, 0, 0}, 1},
                      Variant{
                          "AnySize",
                          {"model.ssd.image_resizer.keep_aspect_ratio_resizer={min_dimension: 64 max_dimension: 96}"},
                          {96, 96, 64, 96},
                          1},
                      Variant{"KeepAspectRatio",
                              {"model.ssd.image_resizer.keep_aspect_ratio_resizer={min_dimension: 64 max_dimension: 96 "
                               "pad_to_max_dimension: true}"},
                              {96, 96, 64, 96},
                              1}),
    [](const auto& variant) { return variant.param.name; });

TEST(ServedModule, UsesNoOperatorOfOursOrOfAnotherLibrary) {
  const auto model = evaluated_model(toy_pipeline());
  const torch::jit::Module served = served_module(*model, {96, 96, 0, 0}, 1);
  std::set<std::string> spaces;
  for_each_node(served, [&](torch::jit::Node& node) { spaces.insert(node.kind().ns().toUnqualString()); });
  EXPECT_EQ(spaces, (std::set<std::string>{"aten", "prim"}));
}

/// How a served network's convolutions are given their maps; runs it once.
std::set<at::MemoryFormat> formats_of_convolutions(const torch::jit::Module& served) {
  static std::set<at::MemoryFormat> seen;
  seen.clear();
  const auto note = [](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
    if (std::string_view(function.name()) != "aten::_convolution") return nullptr;
    const size_t count = function.operator_schema()->arguments().size();
    const at::Tensor map = function.inputs().slice(function.inputs().size() - count)[0].toTensor();
    if (map.size(2) * map.size(3) > 1) seen.insert(map.suggest_memory_format());  // one pixel has no format
    return nullptr;
  };
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(note).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  torch::jit::Module(served).forward({at::zeros({1, 96, 96, 3}, at::kByte)});
  at::removeCallback(handle);
  return seen;
}

TEST(ServedModule, MapsHaveTheMemoryFormatThatWasAskedFor) {
  const auto model = evaluated_model(toy_pipeline());
  for (const at::MemoryFormat format : {at::MemoryFormat::ChannelsLast, at::MemoryFormat::Contiguous})
    EXPECT_THAT(formats_of_convolutions(served_module(*model, {96, 96, 0, 0}, 1, format)),
                ::testing::ElementsAre(format));
}

TEST(CpuConvolutions, GiveWhatTheGraphGave) {
  const TempDir folder;
  at::manual_seed(5);
  const at::Tensor images = at::randn({2, 3, 96, 96}).contiguous(at::MemoryFormat::ChannelsLast),
                   shapes = at::full({2, 2}, 96, at::kLong);
  for (const char* activation : {"RELU", "RELU_6", "SWISH", "NONE"}) {
    const auto model = evaluated_model(
        toy_pipeline({std::string("model.ssd.feature_extractor.conv_hyperparams.activation=") + activation}));
    served_module(*model, {96, 96, 0, 0}, 2).save(folder / "model.pt");
    torch::jit::Module plain = torch::jit::load(folder / "model.pt").attr("net").toModule(),
                       quick = torch::jit::load(folder / "model.pt").attr("net").toModule();
    prepare_for_cpu(quick, at::zeros_like(images));
    const std::string graph = quick.get_method("forward").graph()->toString();
    EXPECT_THAT(graph, HasSubstr("mkldnn::_convolution_pointwise"));
    for (const char* gone : {"aten::_convolution", "aten::relu", "aten::hardtanh", "aten::silu", "aten::hardswish"})
      EXPECT_THAT(graph, Not(HasSubstr(gone))) << activation;
    const at::NoGradGuard no_gradients;
    for (int run = 0; run < 3; ++run) {  // the first runs of a graph are those that its executor learns from
      const auto expected = plain.forward({images, shapes}).toTuple(),
                 found = quick.forward({images, shapes}).toTuple();
      for (size_t i = 0; i < 2; ++i) {
        const at::Tensor there = expected->elements()[i].toTensor();
        // Without an activation the numbers are very large, and so are those that they are differences of.
        expect_close(found->elements()[i].toTensor(), there, 1e-4,
                     1e-5 * std::max(there.abs().max().item<double>(), 1.), activation);
      }
    }
  }
}

TEST(CpuConvolutions, OfThreeByThreeAreMadeInTilesWhereMapsAreLarge) {
  at::manual_seed(6);
  torch::jit::Module network("network");
  network.register_parameter("first", at::randn({32, 3, 3, 3}), /*is_buffer=*/false);
  network.register_parameter("weights", at::randn({32, 32, 3, 3}) * 0.1, false);
  network.register_parameter("biases", at::randn({32}), false);
  network.define(R"(
def convolved(self, x, weights, biases: Optional[Tensor], stride: int):
    return torch._convolution(x, weights, biases, [stride, stride], [1, 1], [1, 1], False, [0, 0], 1, False, False, True, True)

def forward(self, images, shapes):
    large = torch.relu(self.convolved(images, self.first, None, 1))
    clamped = torch.hardtanh(self.convolved(large, self.weights, self.biases, 1), -1., 2.)
    curved = torch.silu(self.convolved(clamped, self.weights, None, 1))
    small = self.convolved(self.convolved(curved, self.weights, self.biases, 2), self.weights, self.biases, 2)
    return torch.relu(self.convolved(curved, self.weights, self.biases, 1)), self.convolved(small, self.weights, self.biases, 1)
)");
  network.eval();
  const torch::jit::Module plain = torch::jit::freeze(network), quick = torch::jit::freeze(network);
  const at::Tensor images = at::randn({2, 3, 24, 21}).contiguous(at::MemoryFormat::ChannelsLast),
                   shapes = at::full({2, 2}, 24, at::kLong);
  prepare_for_cpu(quick, at::zeros_like(images));
  const auto graph = quick.get_method("forward").graph();
  std::map<std::string, int> kinds;
  std::set<const void*> packed;
  for (const torch::jit::Node* node : graph->nodes()) {
    ++kinds[node->kind().toQualString()];
    if (node->kind() == c10::Symbol::fromQualString("osprey::packed_winograd_convolution"))
      packed.insert(torch::jit::toIValue(node->input(1))->toTensor().const_data_ptr());
  }
  EXPECT_EQ(kinds["osprey::packed_winograd_convolution"], 3) << *graph;
  EXPECT_EQ(packed.size(), 1u) << "they share their weights";
  EXPECT_EQ(kinds["mkldnn::_convolution_pointwise"], 4) << "of few channels, with a jump, of few places";
  EXPECT_EQ(kinds["aten::silu"], 1) << "is no clamp";
  EXPECT_EQ(kinds["aten::relu"] + kinds["aten::hardtanh"], 0);
  const at::NoGradGuard no_gradients;
  const auto run = [&](torch::jit::Module module) { return module.forward({images, shapes}).toTuple(); };
  const auto found = run(quick), expected = run(plain);
  for (size_t i = 0; i < 2; ++i)
    expect_close(found->elements()[i].toTensor(), expected->elements()[i].toTensor(), 1e-4, 1e-4, "result");
}

TEST(CpuRoundings, GiveTheSameBits) {
  at::manual_seed(8);
  std::string sums, names;
  constexpr int kGrids = 60;
  for (int i = 0; i < kGrids; ++i) {
    const double scale = std::exp(at::randn({}).item<double>()) * 0.02;
    const int64_t first = i % 2, zero = i < 2 ? first : at::randint(first, 256, {}).item<int64_t>();
    sums += fmt::format("    y{} = torch.fake_quantize_per_tensor_affine(images, {}, {}, {}, 255)\n", i,
                        static_cast<float>(scale), zero, first);
    names += fmt::format("y{}, ", i);
  }
  torch::jit::Module network("network");
  network.define("def forward(self, images, shapes):\n" + sums +
                 "    plain = torch.fake_quantize_per_tensor_affine(images.flatten(1), 0.02, 40, 0, 255)\n"
                 "    return " +
                 names + "plain\n");
  network.eval();
  const torch::jit::Module plain = torch::jit::freeze(network), quick = torch::jit::freeze(network);
  const at::Tensor images = at::randn({2, 3, 24, 21}).mul_(3).contiguous(at::MemoryFormat::ChannelsLast),
                   shapes = at::full({2, 2}, 24, at::kLong);
  prepare_roundings_for_cpu(quick, at::zeros_like(images));
  std::map<std::string, int> kinds;
  for (const torch::jit::Node* node : quick.get_method("forward").graph()->nodes())
    ++kinds[node->kind().toQualString()];
  EXPECT_EQ(kinds["osprey::rounded_values"], kGrids);
  EXPECT_EQ(kinds["aten::fake_quantize_per_tensor_affine"], 1) << "of what is no map";
  const at::NoGradGuard no_gradients;
  const auto run = [&](torch::jit::Module module) { return module.forward({images, shapes}).toTuple(); };
  const auto found = run(quick), expected = run(plain);
  for (size_t i = 0; i <= kGrids; ++i)
    EXPECT_TRUE(found->elements()[i].toTensor().equal(expected->elements()[i].toTensor())) << i;
}

TEST(Export, AnotherModelsFileIsFoundOut) {
  const config::Pipeline pipeline = toy_pipeline();
  const auto model = evaluated_model(pipeline, 1), other = evaluated_model(pipeline, 2);
  torch::jit::Module served = served_module(*other, {96, 96, 0, 0}, 1);
  EXPECT_THROW(compare(*model, *resizer_of(pipeline), served, 1, pictures(), 1e-4), ExportError);
}

TEST(Export, AListThatLostItsEndIsFoundOut) {
  const config::Pipeline pipeline = toy_pipeline(),
                         short_list =
                             toy_pipeline({kNms + "max_detections_per_class=5", kNms + "max_total_detections=5"});
  const auto model = evaluated_model(pipeline, 1), other = evaluated_model(short_list, 1);
  torch::jit::Module served = served_module(*other, {96, 96, 0, 0}, 1);
  EXPECT_NO_THROW(compare(*other, *resizer_of(short_list), served, 1, pictures(), 1e-4));
  EXPECT_THROW(compare(*model, *resizer_of(pipeline), served, 1, pictures(), 1e-4), ExportError);
}

TEST(Export, WhatTheModelItselfLeavesToRoundingIsCountedOnly) {
  const config::Pipeline pipeline = toy_pipeline();
  const auto model = evaluated_model(pipeline, 1);
  torch::jit::Module served = served_module(*model, {96, 96, 0, 0}, 1);
  EXPECT_EQ(compare(*model, *resizer_of(pipeline), served, 1, pictures(), 1e-4).left_to_rounding, 0);
  // Nothing is equal to within so little.
  const ExportReport report = compare(*model, *resizer_of(pipeline), served, 1, pictures(), 1e-12);
  EXPECT_EQ(report.images, 3);
  EXPECT_EQ(report.left_to_rounding, 3);
  const auto other = evaluated_model(pipeline, 2);
  torch::jit::Module wrong = served_module(*other, {96, 96, 0, 0}, 1);
  EXPECT_THROW(compare(*model, *resizer_of(pipeline), wrong, 1, pictures(), 1e-12), ExportError);
}

/// The toy detector with changes, as TensorFlow Lite runs it and by itself.
struct TfliteVariant {
  const char* name;
  std::vector<std::string> changes;
};

void PrintTo(const TfliteVariant& variant, std::ostream* out) { *out << variant.name; }

/// Pixels [1, 3, H, W] as the input of a file.
std::map<std::string, at::Tensor> as_tflite_takes_it(const at::Tensor& pixels) {
  return {{"normalized_input_image_tensor", (pixels.to(at::kFloat) / 127.5 - 1).permute({0, 2, 3, 1})}};
}

class TfliteDetector : public ::testing::TestWithParam<TfliteVariant> {};

TEST_P(TfliteDetector, FindsWhatTheModelFinds) {
  if (!testing::has_tflite_runtime()) GTEST_SKIP() << testing::kNoTfliteRuntime;
  const auto model = evaluated_model(toy_pipeline(GetParam().changes), 3, /*box_spread=*/20);
  const at::NoGradGuard no_gradients;
  Batch batch;
  batch.images = pictures()[0].permute({2, 0, 1}).unsqueeze(0).contiguous(at::MemoryFormat::ChannelsLast);
  batch.true_shapes = at::tensor({96, 96}, at::kLong).unsqueeze(0);
  const models::ModelInput input = model->preprocess(batch);
  const Detections expected = model->postprocess(model->predict(input), batch.true_shapes);

  const tflite::File file = tflite::detector(*model, {96, 96});
  EXPECT_EQ(file.input_type, "float32");
  const auto found = testing::run_tflite(file.bytes, as_tflite_takes_it(batch.images));
  const std::string name = "TFLite_Detection_PostProcess";
  const int64_t count = expected.count[0].item<int64_t>();
  EXPECT_GT(count, 10);
  ASSERT_EQ(found.at(name + ":3").item<float>(), static_cast<float>(count));
  const auto rows = [&](const at::Tensor& values) { return values[0].slice(0, 0, count).to(at::kFloat); };
  expect_close(rows(found.at(name + ":2")), rows(expected.scores), 1e-4, 1e-5, "scores");
  expect_close(rows(found.at(name + ":1")), rows(expected.classes), 0, 0, "classes");
  expect_close(rows(found.at(name)).clamp(0, 1), rows(expected.boxes), 1e-3, 1e-4, "boxes, cut at the edges");
}

INSTANTIATE_TEST_SUITE_P(
    Variants, TfliteDetector,
    ::testing::Values(TfliteVariant{"ByClass", {}},
                      TfliteVariant{"AmongAllClasses", {kNms + "use_class_agnostic_nms=true"}},
                      TfliteVariant{"FewOfAClass",
                                    {kNms + "max_detections_per_class=7", kNms + "max_total_detections=30"}},
                      TfliteVariant{"AnyOverlap", {kNms + "iou_threshold=0"}},
                      TfliteVariant{"NoOverlapIsTooMuch", {kNms + "iou_threshold=0", kNms + "use_static_shapes=true"}},
                      TfliteVariant{"LogitsBelowZero",
                                    {"model.ssd.post_processing.score_converter=IDENTITY", kNms + "score_threshold=-9",
                                     kNms + "max_detections_per_class=5", kNms + "use_combined_nms=true"}},
                      TfliteVariant{"ANormalizationOfItsOwn",
                                    {"model.ssd.feature_extractor.image_normalization={mean: [120, 110, 100] "
                                     "deviation: [60, 55, 50]}"}},
                      TfliteVariant{"WithBackground", {"model.ssd.post_processing.score_converter=SOFTMAX"}}),
    [](const auto& variant) { return variant.param.name; });

TEST(Tflite, WhatTheFormatDoesNotHoldIsNamed) {
  const auto refused = [](const std::vector<std::string>& changes) {
    const auto model = evaluated_model(toy_pipeline(changes));
    try {
      tflite::detector(*model, {96, 96});
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refused({kNms + "soft_nms_sigma=0.3"}), HasSubstr("soft_nms_sigma"));
  EXPECT_THAT(refused({"model.ssd.box_coder={mean_stddev_box_coder {}}"}), HasSubstr("faster_rcnn_box_coder"));
}

/// What a file says of itself.
std::unique_ptr<tflite::SubGraphMetadataT> metadata_of(const tflite::File& file) {
  const auto model = std::unique_ptr<tflite::ModelT>(tflite::GetModel(file.bytes.data())->UnPack());
  EXPECT_EQ(model->metadata.at(0)->name, "TFLITE_METADATA");
  const std::vector<uint8_t>& bytes = model->buffers.at(model->metadata.at(0)->buffer)->data;
  EXPECT_TRUE(tflite::ModelMetadataBufferHasIdentifier(bytes.data()));
  const auto metadata = std::unique_ptr<tflite::ModelMetadataT>(tflite::GetModelMetadata(bytes.data())->UnPack());
  return std::move(metadata->subgraph_metadata.at(0));
}

TEST(Tflite, AFileSaysHowToUseIt) {
  const auto model = evaluated_model(toy_pipeline());
  const auto detector = metadata_of(tflite::detector(*model, {96, 96}));
  const auto& units = detector->input_tensor_metadata.at(0)->process_units;
  const tflite::NormalizationOptionsT& normalization = *units.at(0)->options.AsNormalizationOptions();
  EXPECT_THAT(normalization.mean, ::testing::ElementsAre(127.5f));
  EXPECT_THAT(normalization.std, ::testing::ElementsAre(127.5f));
  std::vector<std::string> names;
  for (const auto& output : detector->output_tensor_metadata) names.push_back(output->name);
  EXPECT_THAT(names, ::testing::ElementsAre("location", "category", "score", "number of detections"));
  const auto* corners = detector->output_tensor_metadata[0]->content->content_properties.AsBoundingBoxProperties();
  EXPECT_THAT(corners->index, ::testing::ElementsAre(1, 0, 3, 2)) << "ymin, xmin, ymax, xmax";
  EXPECT_EQ(detector->output_tensor_metadata[1]->associated_files.at(0)->name, "labels.txt");
}

TEST(Tflite, AClassifierGivesItsScores) {
  if (!testing::has_tflite_runtime()) GTEST_SKIP() << testing::kNoTfliteRuntime;
  const config::Pipeline pipeline =
      config::load_pipeline(OSPREY_SOURCE_DIR "/configs/resnet50_v1_224x224_imagenet.config",
                            std::vector<std::string>{"model.image_classifier.num_classes=7",
                                                     "model.image_classifier.feature_extractor.type=resnet_v1_18"});
  const auto model = models::build_model(pipeline.root(), {.seed = 4});
  model->eval();
  const at::NoGradGuard no_gradients;
  const tflite::File file = tflite::classifier(*model, {224, 224});
  Batch batch;
  batch.images = at::randint(0, 256, {1, 3, 224, 224}, at::kByte).contiguous(at::MemoryFormat::ChannelsLast);
  batch.true_shapes = at::tensor({224, 224}, at::kLong).unsqueeze(0);
  const at::Tensor expected = model->candidates(model->predict(model->preprocess(batch))).scores.squeeze(1),
                   found = testing::run_tflite(file.bytes, as_tflite_takes_it(batch.images)).at("scores");
  EXPECT_GT(expected.std().item<float>(), 1e-4);
  expect_close(found, expected, 1e-3, 1e-5, "scores");
  EXPECT_EQ(metadata_of(file)->output_tensor_metadata.at(0)->associated_files.at(0)->name, "labels.txt");

  Calibrator calibrator(*model, {224, 224});
  calibrator.show(batch);
  const Calibration& calibration = calibrator.result();
  EXPECT_FALSE(calibration.pixel_step) << "each channel has a mean of its own, which no pixel stands for";
  const tflite::File rounded = tflite::classifier(*model, {224, 224}, &calibration);
  EXPECT_EQ(rounded.input_type, "uint8");
  const at::Tensor by_rounded =
      testing::run_tflite(rounded.bytes, {{"normalized_input_image_tensor", batch.images.permute({0, 2, 3, 1})}})
          .at("scores");
  EXPECT_LE((by_rounded - expected).std().item<float>(), 0.2 * expected.std().item<float>())
      << "18 layers of random weights, each rounded; another picture's scores would be off by their own spread";
}

TEST(Export, FolderServesThroughTheDetector) {
  const TempDir folder;
  const config::Pipeline pipeline = toy_pipeline();
  const auto model = evaluated_model(pipeline, 3);
  save_run(*model, folder);
  const ExportReport report = export_model(pipeline, folder / "ckpt-5", folder / "exported");
  EXPECT_GT(report.detections, 0);
  EXPECT_FALSE(report.real_images) << "the quickstart's records are not there in a test";
  EXPECT_EQ(report.without_onnx, "");
  for (const char* name : {"model.pt", "model.onnx", "model_card.json", "label_map.pbtxt", "pipeline.config"})
    EXPECT_TRUE(fs::exists(folder / (std::string("exported/") + name))) << name;

  const Detector detector(folder / "exported");
  const auto one = detector.detect(pictures()[1]);
  ASSERT_FALSE(one.empty());
  // The detector suppresses by itself what the file would suppress.
  const auto by_file =
      torch::jit::load(folder / "exported/model.pt").forward({pictures()[1].unsqueeze(0)}).toGenericDict();
  const auto of_file = [&](const char* name) { return by_file.at(name).toTensor()[0]; };
  ASSERT_EQ(static_cast<float>(one.size()), of_file("num_detections").item<float>());
  for (size_t i = 0; i < one.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    EXPECT_NEAR(one[i].score, of_file("detection_scores")[row].item<float>(), 1e-4) << i;
    EXPECT_NEAR(one[i].box.ymin, of_file("detection_boxes")[row][0].item<float>(), 1e-4) << i;
    EXPECT_EQ(static_cast<float>(one[i].class_id), of_file("detection_classes")[row].item<float>()) << i;
  }
  EXPECT_THAT(one.front().class_name, HasSubstr("class"));
  for (size_t i = 1; i < one.size(); ++i) EXPECT_GE(one[i - 1].score, one[i].score);
  const auto many = detector.detect(pictures());
  ASSERT_EQ(many.size(), 3u);
  EXPECT_EQ(many[1].size(), one.size());
  EXPECT_TRUE(detector.detect(pictures()[1], /*min_score=*/2).empty());

  // Four copies of a picture, each a tile.
  const at::Tensor square = pictures()[1].slice(1, 0, pictures()[1].size(0)), pair = at::cat({square, square}, 1);
  const auto of_square = detector.detect(square),
             tiled = detect_in_tiles(detector, at::cat({pair, pair}, 0),
                                     {.side_px = square.size(0), .overlap = 0, .whole_picture = false});
  ASSERT_EQ(tiled.size(), 4 * of_square.size());
  for (size_t i = 0; i < tiled.size(); ++i) {
    EXPECT_NEAR(tiled[i].score, of_square[i / 4].score, 1e-4) << i;
    EXPECT_NEAR(tiled[i].box.height(), of_square[i / 4].box.height() / 2, 1e-4) << i;
  }

  // The same with maps of the other format, which the processor's own convolutions take as well.
  ExportOptions contiguous;
  contiguous.memory_format = at::MemoryFormat::Contiguous;
  export_model(pipeline, folder / "ckpt-5", folder / "contiguous", contiguous);
  const auto other = Detector(folder / "contiguous").detect(pictures()[1]);
  ASSERT_EQ(other.size(), one.size());
  for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(other[i].score, one[i].score, 1e-4) << i;

  torch::jit::Module("another.Model").save(folder / "exported/model.pt");
  EXPECT_THAT([&] { Detector another(folder / "exported"); },
              ::testing::ThrowsMessage<DataError>(HasSubstr("exported/model.pt: cannot be loaded")));
}

TEST(Export, AFolderHasNoFileOfAnotherModel) {
  const TempDir folder;
  const config::Pipeline plain = toy_pipeline(), soft = toy_pipeline({kNms + "soft_nms_sigma=0.3"});
  save_run(*evaluated_model(plain, 3), folder);
  const auto card = [&] { return testing::read_json(folder / "exported/model_card.json"); };
  export_model(plain, folder / "ckpt-5", folder / "exported", {.tflite = true});
  EXPECT_TRUE(fs::exists(folder / "exported/model.onnx"));
  EXPECT_EQ(card().at("onnx").at("opset"), kOnnxOpset);
  EXPECT_TRUE(fs::exists(folder / "exported/model.tflite"));
  EXPECT_EQ(card().at("tflite").at("input").at("type"), "float32");
  EXPECT_THAT(testing::read_file(folder / "exported/model.tflite"), HasSubstr("class1\nclass2\nclass3\n"));
  EXPECT_NO_THROW(Detector(folder / "exported"));

  const ExportReport report = export_model(soft, folder / "ckpt-5", folder / "exported", {.tflite = true});
  EXPECT_THAT(report.without_onnx, HasSubstr("soft_nms_sigma"));
  EXPECT_FALSE(fs::exists(folder / "exported/model.onnx"));
  EXPECT_FALSE(card().contains("onnx"));
  EXPECT_THAT(report.without_tflite, HasSubstr("soft_nms_sigma"));
  EXPECT_FALSE(fs::exists(folder / "exported/model.tflite"));
  EXPECT_FALSE(card().contains("tflite"));

  export_model(plain, folder / "ckpt-5", folder / "exported");
  EXPECT_EQ(export_model(plain, folder / "ckpt-5", folder / "exported", {.onnx = false}).without_onnx, "");
  EXPECT_FALSE(fs::exists(folder / "exported/model.onnx"));
}

TEST(Export, TheFolderOfTheTrainingIsLeftAsItIs) {
  const TempDir folder;
  const config::Pipeline pipeline = toy_pipeline();
  save_run(*evaluated_model(pipeline, 3), folder);
  std::ofstream(folder / "pipeline.config") << "what was really run";
  // Its own folder; of the best checkpoint, the one above and its own; another training's, even without a checkpoint.
  for (const char* name : {"best", "other"}) fs::create_directory(folder / name);
  for (const char* name : {"ckpt-5.osprey", "pipeline.config"})
    fs::copy(folder / name, folder / ("best/" + std::string(name)));
  std::ofstream(folder / "other/run_info.json") << "{}";
  for (const auto& [checkpoint, output] : std::vector<std::pair<std::string, std::string>>{
           {"ckpt-5", "."}, {"best", "."}, {"best", "best"}, {"ckpt-5", "best"}, {"best", "other"}}) {
    EXPECT_THAT([&] { export_model(pipeline, folder / checkpoint, folder / output); },
                ::testing::ThrowsMessage<ConfigError>(HasSubstr("is the folder of a training")));
    EXPECT_FALSE(fs::exists(folder / (output + "/model.pt")));
  }
  fs::rename(folder / "ckpt-5.osprey", folder / "weights.osprey");
  EXPECT_THAT([&] { export_model(pipeline, folder / "weights.osprey", folder / "."); },
              ::testing::ThrowsMessage<ConfigError>(HasSubstr("is the folder of a training")));
}

/// How the classes of an exported model are called.
std::string names_of(const std::string& folder) {
  std::string names;
  for (const config::LabelMap::Item& item : config::load_label_map(folder + "/label_map.pbtxt").items)
    names += item.name + " ";
  return names;
}

constexpr ExportOptions kQuick = {.onnx = false, .parity_images = 1};

TEST(Export, ALabelMapOfMoreClassesThanTheModelHasIsRefused) {
  const TempDir folder;
  save_run(*evaluated_model(toy_pipeline(), 3), folder);
  osprey::testing::write_file(folder / "coco.pbtxt", "item { id: 1 name: 'person' } item { id: 9 name: 'boat' }");
  const auto by = [&](const std::string& map) {
    export_model(toy_pipeline({"eval_input_reader[0].label_map_path=" + map}), folder / "ckpt-5", folder / "exported",
                 kQuick);
  };
  EXPECT_THAT([&] { by(folder / "coco.pbtxt"); }, ::testing::ThrowsMessage<ConfigError>(AllOf(
                                                      HasSubstr("eval_input_reader[0].label_map_path: "),
                                                      HasSubstr("goes up to id 9, but the model has num_classes 3"))));
  fs::copy_file(folder / "coco.pbtxt", folder / "label_map.pbtxt", fs::copy_options::overwrite_existing);
  EXPECT_THAT([&] { by("nowhere.pbtxt"); },
              ::testing::ThrowsMessage<ConfigError>(HasSubstr(folder / "label_map.pbtxt goes up to id 9")));
  EXPECT_FALSE(fs::exists(folder / "exported"));
}

TEST(Export, TheLabelMapOfTheTrainingDataNamesTheClassesWhereThatOfTheEvaluationDoesNot) {
  const TempDir folder;
  save_run(*evaluated_model(toy_pipeline(), 3), folder);
  osprey::testing::write_file(folder / "training.pbtxt", "item { id: 1 name: 'cat' } item { id: 3 name: 'dog' }");
  const std::vector<std::string> none = {"eval_input_reader[0].label_map_path=",
                                         "train_input_reader.label_map_path=" + folder / "training.pbtxt"};
  set_up_logging();  // to stderr
  ::testing::internal::CaptureStderr();
  export_model(toy_pipeline(none), folder / "ckpt-5", folder / "exported", kQuick);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr(folder / "label_map.pbtxt, which lies beside the checkpoint, has others"));
  EXPECT_EQ(names_of(folder / "exported"), "cat dog ");
}

TEST(Export, OfEvaluationDataOnlyThePicturesAreAskedFor) {
  const TempDir folder;
  save_run(*evaluated_model(toy_pipeline(), 3), folder);
  {
    data::RecordWriter writer(folder / "other.record");
    writer.write(osprey::testing::picture_record(64, 96).box(0, 0, 1, 1, 9).bytes());
    writer.close();
  }
  const auto with = [&](const std::string& reader) {
    return export_model(toy_pipeline({"eval_input_reader[0].label_map_path=", reader}), folder / "ckpt-5",
                        folder / "exported", kQuick);
  };
  EXPECT_TRUE(with("eval_input_reader[0].tf_record_input_reader.input_path[0]=" + folder / "other.record").real_images);
  EXPECT_FALSE(with("eval_input_reader[0].annotation_input_reader={ format: VOC input: 'nowhere' }").real_images);
}

TEST(Export, ARoundedModelIsServedAsAnyOther) {
  const TempDir folder;
  save_run(*evaluated_model(toy_pipeline(), 3), folder);
  {
    data::RecordWriter writer(folder / "train.record");
    for (const at::Tensor& picture : pictures())
      writer.write(osprey::testing::picture_record(picture.size(0), picture.size(1)).box(0, 0, 1, 1, 1).bytes());
    writer.close();
  }
  const config::Pipeline pipeline =
      toy_pipeline({"train_input_reader.tf_record_input_reader.input_path[0]=" + folder / "train.record"});
  const ExportReport report = export_model(pipeline, folder / "ckpt-5", folder / "exported",
                                           {.tflite = true, .quantize = true, .calibration_images = 2});
  ASSERT_TRUE(report.rounding);
  EXPECT_EQ(report.without_onnx, "");
  EXPECT_EQ(report.without_tflite, "");
  const auto card = testing::read_json(folder / "exported/model_card.json");
  EXPECT_EQ(card.at("quantization").at("calibration_images"), 2);
  EXPECT_EQ(card.at("tflite").at("input").at("type"), "uint8");
  EXPECT_EQ(read_model_card(folder / "exported/model_card.json").rounding->calibration_images, 2);
  EXPECT_EQ(read_model_card(folder / "exported/model_card.json").rounding->found, report.rounding->found);
  const auto size = [&](const std::string& file) { return static_cast<double>(fs::file_size(folder / file)); };

  const ExportReport plain =
      export_model(pipeline, folder / "ckpt-5", folder / "plain", {.tflite = true, .calibration_images = 2});
  EXPECT_FALSE(plain.rounding);
  EXPECT_FALSE(testing::read_json(folder / "plain/model_card.json").contains("quantization"));
  EXPECT_LT(size("exported/model.tflite"), 0.4 * size("plain/model.tflite"));
  EXPECT_LT(size("exported/model.onnx"), 0.4 * size("plain/model.onnx"));

  const auto found = Detector(folder / "exported").detect(pictures()[1]),
             expected = Detector(folder / "plain").detect(pictures()[1]);
  ASSERT_FALSE(found.empty());
  ASSERT_FALSE(expected.empty());
  EXPECT_NE(found.front().score, expected.front().score);
  EXPECT_NEAR(found.front().score, expected.front().score, 0.2) << "a network of random weights, and two pictures";
}

TEST(Export, RoundedModelsTakeSeveralPicturesAndPadThem) {
  const TempDir folder;
  const std::string padded =
      "model.ssd.image_resizer={keep_aspect_ratio_resizer {min_dimension: 64 max_dimension: 96 pad_to_max_dimension: "
      "true}}";
  const config::Pipeline pipeline =
      toy_pipeline({padded, "train_input_reader.tf_record_input_reader.input_path[0]=" + folder / "train.record"});
  save_run(*evaluated_model(pipeline, 3), folder);
  {
    data::RecordWriter writer(folder / "train.record");
    writer.write(osprey::testing::picture_record(50, 96).bytes());
    writer.close();
  }
  const auto found = [&](int64_t batch_size) {
    const std::string to = folder / ("exported" + std::to_string(batch_size));
    export_model(pipeline, folder / "ckpt-5", to, {.batch_size = batch_size, .onnx = false, .quantize = true});
    return Detector(to).detect(pictures()[1]);
  };
  const auto one = found(1), two = found(2);
  ASSERT_FALSE(one.empty());
  ASSERT_EQ(one.size(), two.size());
  EXPECT_NEAR(one.front().score, two.front().score, 0.02) << "the same ranges; values fall to either side of a border";
}

TEST(Export, ANetworkThatWasTrainedFor8BitsIsNotRoundedAgain) {
  const TempDir folder;
  EXPECT_THAT(
      [&] {
        export_model(toy_pipeline({"graph_rewriter={quantization {delay: 1}}",
                                   "train_input_reader.tf_record_input_reader.input_path[0]=nowhere.record"}),
                     folder / "ckpt-5", folder / "exported", {.quantize = true});
      },
      ::testing::ThrowsMessage<ConfigError>(HasSubstr("graph_rewriter: the network is trained for 8 bits")));
}

TEST(Export, PicturesThatCannotBeReadAreLeftOutOfTheCalibration) {
  const TempDir folder;
  save_run(*evaluated_model(toy_pipeline(), 3), folder);
  const auto with = [&](int readable) {
    data::RecordWriter writer(folder / "train.record");
    for (int i = 0; i < readable; ++i) writer.write(osprey::testing::picture_record(64, 96).bytes());
    writer.write(osprey::testing::picture_record(9, 9).strings("image/encoded", {"no picture"}).bytes());
    writer.close();
    export_model(toy_pipeline({"train_input_reader.tf_record_input_reader.input_path[0]=" + folder / "train.record"}),
                 folder / "ckpt-5", folder / "exported", {.onnx = false, .quantize = true});
  };
  set_up_logging();  // to stderr
  ::testing::internal::CaptureStderr();
  with(2);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("1 of 3 pictures of train_input_reader are left out"));
  EXPECT_EQ(read_model_card(folder / "exported/model_card.json").rounding->calibration_images, 2);
  EXPECT_THAT([&] { with(0); }, ::testing::ThrowsMessage<DataError>(HasSubstr("train_input_reader has no picture: ")));
}

TEST(Export, ThePictureOnWhichANetworkIsNotFiniteIsNamed) {
  const TempDir folder;
  const auto model = evaluated_model(toy_pipeline(), 3);
  {
    const at::NoGradGuard no_gradients;
    at::Tensor(models::variables(*model).front().second).fill_(std::nanf(""));
  }
  save_run(*model, folder);
  {
    data::RecordWriter writer(folder / "train.record");
    writer.write(osprey::testing::picture_record(64, 96).bytes());
    writer.close();
  }
  EXPECT_THAT(
      [&] {
        export_model(
            toy_pipeline({"train_input_reader.tf_record_input_reader.input_path[0]=" + folder / "train.record"}),
            folder / "ckpt-5", folder / "exported", {.onnx = false, .quantize = true});
      },
      ::testing::ThrowsMessage<DataError>(AllOf(HasSubstr(folder / "train.record"), HasSubstr("not finite"))));
}

TEST(Export, WithoutPicturesOfTheTrainingNothingIsRounded) {
  const TempDir folder;
  save_run(*evaluated_model(toy_pipeline(), 3), folder);
  EXPECT_THAT(
      [&] {
        export_model(toy_pipeline({"train_input_reader.tf_record_input_reader.input_path[0]=nowhere.record"}),
                     folder / "ckpt-5", folder / "exported", {.quantize = true});
      },
      ::testing::ThrowsMessage<DataError>(HasSubstr("nowhere.record")));
  EXPECT_FALSE(fs::exists(folder / "exported/model.pt"));
}

TEST(Export, ADiskThatIsFullIsSaidAndNothingIsLeft) {
  const TempDir folder;
  const config::Pipeline pipeline = toy_pipeline();
  save_run(*evaluated_model(pipeline, 3), folder);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{4096, before.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);  // stands for the end of the disk
  EXPECT_THAT([&] { export_model(pipeline, folder / "ckpt-5", folder / "exported"); },
              ::testing::ThrowsMessage<Error>(HasSubstr("cannot be written")));
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  EXPECT_TRUE(fs::is_empty(folder / "exported"));
}

TEST(Export, PythonLoadsTheFileWithoutOsprey) {
  const std::string python = OSPREY_SOURCE_DIR "/build/venv/bin/python";
  if (!fs::exists(python)) GTEST_SKIP() << "no Python environment: scripts/setup.sh --tests makes it";
  const TempDir folder;
  const auto model = evaluated_model(toy_pipeline(), 3);
  torch::jit::Module served = served_module(*model, {96, 96, 0, 0}, 1);
  served.save(folder / "model.pt");
  const at::Tensor image = pictures()[1].unsqueeze(0);
  const auto ours = served.forward({image}).toGenericDict();
  {
    std::ofstream raw(folder / "image.raw", std::ios::binary);
    raw.write(static_cast<const char*>(image.const_data_ptr()), image.numel());
    std::ofstream script(folder / "run.py");
    script << "import sys, torch\n"
              "folder, h, w = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])\n"
              "image = torch.frombuffer(bytearray(open(folder + '/image.raw', 'rb').read()), "
              "dtype=torch.uint8).reshape(1, h, w, 3)\n"
              "out = torch.jit.load(folder + '/model.pt')(image)\n"
              "n = int(out['num_detections'][0])\n"
              "open(folder + '/out.txt', 'w').write('\\n'.join(\n"
              "    ' '.join(repr(float(v)) for v in [out['detection_scores'][0, i], out['detection_classes'][0, i], "
              "*out['detection_boxes'][0, i]])\n"
              "    for i in range(n)))\n";
  }
  const std::string command = python + " " + (folder / "run.py") + " " + (folder / "") + " " +
                              std::to_string(image.size(1)) + " " + std::to_string(image.size(2));
  ASSERT_EQ(std::system(command.c_str()), 0);
  std::ifstream out(folder / "out.txt");
  const int64_t count = static_cast<int64_t>(ours.at("num_detections").toTensor().item<float>());
  ASSERT_GT(count, 0);
  for (int64_t i = 0; i < count; ++i) {
    double score, class_id, corner;
    ASSERT_TRUE(out >> score >> class_id) << "Python found fewer than " << count;
    EXPECT_NEAR(score, ours.at("detection_scores").toTensor()[0][i].item<double>(), 1e-5);
    EXPECT_EQ(class_id, ours.at("detection_classes").toTensor()[0][i].item<double>());
    for (int64_t k = 0; k < 4; ++k) {
      ASSERT_TRUE(out >> corner);
      EXPECT_NEAR(corner, ours.at("detection_boxes").toTensor()[0][i][k].item<double>(), 1e-5);
    }
  }
}

TEST(Latency, IsSummarisedOverAllCalls) {
  std::vector<double> seconds;
  for (int i = 100; i > 0; --i) seconds.push_back(i * 1e-3);
  const Latency found = summarize(seconds, 4);
  EXPECT_EQ(found.batch_size, 4);
  EXPECT_DOUBLE_EQ(found.average_ms, 50.5);
  EXPECT_DOUBLE_EQ(found.images_per_second, 4 / 0.0505);
  EXPECT_DOUBLE_EQ(found.p90_ms, 90);
  EXPECT_DOUBLE_EQ(found.p95_ms, 95);
  EXPECT_DOUBLE_EQ(found.p99_ms, 99);
  EXPECT_DOUBLE_EQ(summarize({0.25}, 1).p90_ms, 250);
}

TEST(Detector, AFolderWithoutAModelIsNamed) {
  const TempDir folder;
  try {
    Detector detector(folder / "nowhere");
    FAIL() << "loaded nothing";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("nowhere/model_card.json"));
  }
}

TEST(Detector, ALabelMapThatIsMissingOrDamagedIsAnErrorOfTheData) {
  const TempDir folder;
  std::ofstream(folder / "model_card.json") << to_json(ModelCard{});
  const auto load = [&] { Detector detector(folder.path().string()); };
  EXPECT_THAT(load, ::testing::ThrowsMessage<DataError>(HasSubstr("label_map.pbtxt: the label map cannot be read")));
  std::ofstream(folder / "label_map.pbtxt") << "item { id: 0 name: 'a' }";
  EXPECT_THAT(load, ::testing::ThrowsMessage<DataError>(HasSubstr("label_map.pbtxt:1:")));
}

TEST(Detector, ACardWithoutABatchIsRefused) {
  const TempDir folder;
  ModelCard card;
  card.batch_size = 0;
  std::ofstream(folder / "model_card.json") << to_json(card);
  EXPECT_THAT(
      [&] { Detector detector(folder.path().string()); },
      ::testing::ThrowsMessage<DataError>(HasSubstr("model_card.json: input.batch_size must be >= 1, found 0")));
}

}  // namespace
}  // namespace osprey
