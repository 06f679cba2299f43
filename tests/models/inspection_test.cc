#include "osprey/models/inspection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace osprey::models {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

config::Pipeline inspected_pipeline() {
  return config::parse_pipeline(
      "model { ssd { num_classes: 3 loss { hard_example_miner {} } } }\ntrain_config { from_detection_checkpoint: true "
      "}\n",
      "p.config", std::vector<std::string>{"train_config.batch_size=4"});
}

Summary summary() {
  Summary result;
  result.trainable_parameters = 7;
  result.total_parameters = 9;
  result.multiply_adds = 2500000000;
  result.input_size = {300, 200};
  result.feature_maps = {{19, 13, 512}, {1, 1, 128}};
  result.num_anchors = 21;
  result.box_encodings_shape = {1, 21, 4};
  result.class_predictions_shape = {1, 21, 4};
  return result;
}

TEST(Inspection, TheTextShowsValuesArithmeticRemarksAndShapes) {
  EXPECT_THAT(config_report(inspected_pipeline()),
              AllOf(HasSubstr("num_classes: 3  # p.config:1"), HasSubstr("batch_size: 4  # --set"),
                    HasSubstr("\nTF1: "), HasSubstr("from_detection_checkpoint: is read as"),
                    HasSubstr("model.ssd.loss.hard_example_miner: "), HasSubstr("instead: ")));
  EXPECT_THAT(model_report(summary()), AllOf(HasSubstr("19x13x512, 1x1x128"), HasSubstr("[1, 21, 4]"),
                                             HasSubstr("300x200"), HasSubstr("2.500 G")));
}

TEST(Inspection, TheJsonCarriesTheSame) {
  const auto json = nlohmann::json::parse(inspection_json(inspected_pipeline(), summary()));
  EXPECT_EQ(json["trainable_parameters"], 7);
  EXPECT_EQ(json["feature_maps"], nlohmann::json::parse("[[19, 13, 512], [1, 1, 128]]"));
  EXPECT_EQ(json["multiply_adds"], 2500000000);
  EXPECT_EQ(json["num_anchors"], 21);
  EXPECT_EQ(json["box_encodings_shape"], nlohmann::json::parse("[1, 21, 4]"));
  EXPECT_EQ(json["class_predictions_shape"], nlohmann::json::parse("[1, 21, 4]"));
  EXPECT_EQ(json["values"][1]["path"], "train_config.batch_size");
  EXPECT_EQ(json["values"][1]["origin"], "override");
  EXPECT_EQ(json["values"][0]["line"], 1);
  EXPECT_EQ(json["dynamic_parts"][0]["field"], "model.ssd.loss.hard_example_miner");
  EXPECT_EQ(json["remarks"][0]["field"], "train_config.from_detection_checkpoint");
}

}  // namespace
}  // namespace osprey::models
