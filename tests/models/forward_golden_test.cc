// Inference with the golden files' variables gives the original's numbers.
#include "models/golden_model.h"
#include "osprey/models/ssd_meta_arch.h"

namespace osprey {
namespace {

using namespace osprey::testing;

constexpr double kTolerance = 1e-4;  // absolute

/// Everything that the golden files record of a forward pass, by name.
std::map<std::string, at::Tensor> forward(models::SsdMetaArch& model, const Batch& batch) {
  const models::ModelInput input = model.preprocess(batch);
  std::map<std::string, at::Tensor> result;
  result["preprocessed"] = channels_last_view(input.images);
  const std::vector<at::Tensor> maps = model.feature_maps(input);
  for (size_t i = 0; i < maps.size(); ++i) result["feature map " + std::to_string(i)] = channels_last_view(maps[i]);
  const Predictions predictions = model.predict(input);
  result["box_encodings"] = predictions.box_encodings;
  result["class_predictions_with_background"] = predictions.class_logits;
  result["anchors"] = predictions.anchors;
  return result;
}

/// How far any value of each tensor moves when the picture changes by a millionth: float32 leaves a noise of this size
/// in the golden numbers, too. In most models it moves nothing by more than 3e-5. Where no rectifier clamps the maps
/// they reach 50 (MnasFPN), 3,700 (EdgeTPU) and move by more than 1e-4.
std::map<std::string, double> movements(models::SsdMetaArch& model, const Batch& batch,
                                        const std::map<std::string, at::Tensor>& exact) {
  std::map<std::string, double> result;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    at::manual_seed(seed);
    Batch moved = batch;
    moved.images = batch.images * (1 + 1e-6 * at::randn_like(batch.images));
    for (const auto& [name, values] : forward(model, moved))
      result[name] = std::max(result[name], (values - exact.at(name)).abs().max().item<double>());
  }
  return result;
}

TEST(ModelForward, EqualsTheOriginal) {
  for_each_model(
      model_files("forward_"), true,
      [](const nlohmann::json& golden, const config::Pipeline& pipeline, const std::filesystem::path& file) {
        const auto model = std::dynamic_pointer_cast<models::SsdMetaArch>(models::build_model(pipeline.root()));
        ASSERT_NE(model, nullptr);
        EXPECT_EQ(static_cast<int64_t>(compared_variables(*model).size()),
                  golden.at("num_variables").get<int64_t>() - count_unused(file));
        set_formula_values(*model, golden);
        model->eval();
        at::NoGradGuard no_grad;
        const Batch batch = formula_batch(1, golden.at("input_hw")[0], golden.at("input_hw")[1]);
        const std::map<std::string, at::Tensor> ours = forward(*model, batch);
        const std::map<std::string, double> moves = movements(*model, batch, ours);

        std::map<std::string, nlohmann::json> theirs{{"preprocessed", golden.at("preprocessed")}};
        for (size_t i = 0; i < golden.at("feature_maps").size(); ++i)
          theirs["feature map " + std::to_string(i)] = golden.at("feature_maps")[i];
        for (const auto& [name, record] : golden.at("outputs").items()) theirs[name] = record;
        ASSERT_EQ(ours.size(), theirs.size());
        for (const auto& [name, record] : theirs) {
          ASSERT_EQ(ours.count(name), 1u) << "unknown output " << name;
          const double tolerance = name == "anchors" ? 1e-5 : std::max(kTolerance, moves.at(name));
          expect_record(ours.at(name), record, tolerance, name);
        }

        const nlohmann::json& post = golden.at("postprocess");
        const Detections detections = model->postprocess(model->predict(model->preprocess(batch)), batch.true_shapes);
        EXPECT_EQ(detections.count[0].item<int64_t>(),
                  static_cast<int64_t>(post.at("num_detections")[0].get<double>()));
        const auto first = [](const at::Tensor& values, int64_t count) {
          return values[0].slice(0, 0, count).to(at::kFloat);
        };
        const at::Tensor boxes = tensor(post.at("detection_boxes_first20"));
        expect_close(first(detections.scores, boxes.size(0)), tensor(post.at("detection_scores_first20")), 0,
                     kTolerance, "scores");
        // Logits that move so far have saturated scores, and rounding orders those that are all 1.
        if (moves.at("class_predictions_with_background") > kTolerance) return;
        expect_close(first(detections.boxes, boxes.size(0)), boxes, 0, kTolerance, "detection boxes");
        expect_close(first(detections.classes, boxes.size(0)), tensor(post.at("detection_classes_first20_zero_based")),
                     0, 0, "classes");
      });
}

/// SpaghettiNets by the formula of the golden files, on their picture of 256 x 288; the numbers are the original's
/// (tf-models-research-object-detection 2.8.0), in evaluation. A value next to the border between two of 256 numbers
/// falls to either side by rounding: other instructions of the same CPU give maps that differ by a tenth of their size
/// in places.
TEST(ModelForward, SpaghettinetsGiveTheMapsOfTheOriginal) {
  struct Map {
    double sum, sum_sq, first;
  };
  struct Network {
    std::string fields;
    std::vector<Map> maps;
  };
  const std::vector<Network> networks = {{"spaghettinet_arch_name: 'spaghettinet_edgetpu_s' use_explicit_padding: true",
                                          {{-15555.4141, 1120384.5103, 4.651023864746094},
                                           {-3369.2678, 89716.905, -0.36010992527008057},
                                           {5507.1758, 44838.0189, 2.032862663269043},
                                           {188.9, 4124.7522, 4.818353652954102},
                                           {927.541, 4292.5849, 1.2457820177078247}}},
                                         {"",
                                          {{19665.3234, 1166523.3115, -1.8093748092651367},
                                           {17606.3791, 158078.1874, -0.6787658929824829},
                                           {15483.7965, 135282.5014, 12.235807418823242},
                                           {926.0307, 7932.4828, 1.187306523323059},
                                           {1182.638, 7488.2752, 1.9343788623809814}}},
                                         {"spaghettinet_arch_name: 'spaghettinet_edgetpu_l'",
                                          {{21917.9714, 1035810.7614, -4.777471542358398},
                                           {-7750.0913, 336170.917, 0.46145153045654297},
                                           {4379.3881, 49000.161, 1.7361302375793457},
                                           {52.4467, 7095.0359, 2.324852228164673},
                                           {732.9662, 3037.1936, 4.077478408813477}}}};
  for (const Network& network : networks) {
    SCOPED_TRACE(network.fields);
    const config::Pipeline pipeline = config::parse_pipeline(
        "model { ssd { num_classes: 5 image_resizer { fixed_shape_resizer { height: 256 width: 288 } } "
        "feature_extractor { type: 'ssd_spaghettinet' " +
            network.fields +
            " } anchor_generator { ssd_anchor_generator { num_layers: 5 aspect_ratios: 1 } } box_predictor { "
            "convolutional_box_predictor { conv_hyperparams { regularizer { l2_regularizer {} } initializer { "
            "truncated_normal_initializer {} } } } } box_coder { faster_rcnn_box_coder {} } matcher { argmax_matcher "
            "{} } similarity_calculator { iou_similarity {} } loss { classification_loss { weighted_sigmoid {} } "
            "localization_loss { weighted_smooth_l1 {} } } post_processing { batch_non_max_suppression {} } } }",
        "spaghettinet.config");
    const auto model = std::dynamic_pointer_cast<models::SsdMetaArch>(models::build_model(pipeline.root()));
    set_formula_values(*model, {{"runtime", "TF1"}});
    model->eval();
    const at::NoGradGuard no_grad;
    const std::vector<at::Tensor> maps = model->feature_maps(model->preprocess(formula_batch(1, 256, 288)));
    ASSERT_EQ(maps.size(), network.maps.size());
    for (size_t i = 0; i < maps.size(); ++i) {
      const Map& expected = network.maps[i];
      const at::Tensor map = maps[i].to(at::kDouble);
      const double count = static_cast<double>(map.numel()), size = std::sqrt(expected.sum_sq / count);
      EXPECT_NEAR(map[0][0][0][0].item<double>(), expected.first, 0.15 * size) << i;
      EXPECT_NEAR(map.sum().item<double>(), expected.sum, 0.015 * size * count) << i;
      EXPECT_NEAR(map.square().sum().item<double>(), expected.sum_sq, 0.05 * expected.sum_sq) << i;
    }
  }
}

}  // namespace
}  // namespace osprey
