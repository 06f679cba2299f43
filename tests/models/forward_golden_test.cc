// Inference with the golden files' variables gives the original's numbers.
#include "models/golden_model.h"
#include "osprey/models/ssd_meta_arch.h"

namespace osprey {
namespace {

using namespace osprey::testing;

constexpr double kTolerance = 1e-4;  // absolute, of float32 networks of some 30 to 200 layers

TEST(ModelForward, EqualsTheOriginal) {
  for_each_built(model_files("forward_"), true, [](const nlohmann::json& golden, const config::Pipeline& pipeline) {
    const auto model = std::dynamic_pointer_cast<models::SsdMetaArch>(models::build_model(pipeline.root()));
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(static_cast<int64_t>(models::variables(*model).size()), golden.at("num_variables").get<int64_t>());
    set_formula_values(*model);
    model->eval();
    at::NoGradGuard no_grad;
    const Batch batch = formula_batch(1, golden.at("input_hw")[0], golden.at("input_hw")[1]);
    const models::ModelInput input = model->preprocess(batch);
    expect_record(channels_last_view(input.images), golden.at("preprocessed"), kTolerance, "preprocessed");

    const std::vector<at::Tensor> maps = model->feature_maps(input);
    ASSERT_EQ(maps.size(), golden.at("feature_maps").size());
    for (size_t i = 0; i < maps.size(); ++i)
      expect_record(channels_last_view(maps[i]), golden.at("feature_maps")[i], kTolerance,
                    "feature map " + std::to_string(i));

    const Predictions predictions = model->predict(input);
    const nlohmann::json& outputs = golden.at("outputs");
    for (const auto& [name, record] : outputs.items()) {
      if (name == "box_encodings") {
        expect_record(predictions.box_encodings, record, kTolerance, name);
      } else if (name == "class_predictions_with_background") {
        expect_record(predictions.class_logits, record, kTolerance, name);
      } else if (name == "anchors") {
        expect_record(predictions.anchors, record, 1e-5, name);
      } else {
        ADD_FAILURE() << "unknown output " << name;
      }
    }

    const nlohmann::json& post = golden.at("postprocess");
    const Detections detections = model->postprocess(predictions, batch.true_shapes);
    EXPECT_EQ(detections.count[0].item<int64_t>(), static_cast<int64_t>(post.at("num_detections")[0].get<double>()));
    const auto first = [](const at::Tensor& values, int64_t count) {
      return values[0].slice(0, 0, count).to(at::kFloat);
    };
    const at::Tensor boxes = tensor(post.at("detection_boxes_first20"));
    expect_close(first(detections.boxes, boxes.size(0)), boxes, 0, kTolerance, "detection boxes");
    expect_close(first(detections.scores, boxes.size(0)), tensor(post.at("detection_scores_first20")), 0, kTolerance,
                 "scores");
    expect_close(first(detections.classes, boxes.size(0)), tensor(post.at("detection_classes_first20_zero_based")), 0,
                 0, "classes");
  });
}

}  // namespace
}  // namespace osprey
