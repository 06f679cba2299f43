// Every case of golden/target_assigner.json.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "osprey/config/parse.h"
#include "osprey/protos/target_assigner.pb.h"
#include "osprey/targets/builder.h"
#include "support/golden.h"

namespace osprey::targets {
namespace {

using nlohmann::json;
using osprey::testing::expect_close;
using osprey::testing::tensor;

void check_case(const json& golden, const json& c, const std::string& what) {
  const std::string text = "matcher { " + c.at("config").get<std::string>() +
                           " } similarity_calculator { iou_similarity {} } box_coder { faster_rcnn_box_coder {} }";
  const auto parsed = config::parse<proto::TargetAssigner>(text);
  const at::Tensor one_hot = tensor(golden.at("gt_classes_one_hot_without_background")),
                   anchors = tensor(golden.at("anchors"));
  TargetAssignerOptions options;
  options.num_classes = one_hot.size(2);
  options.negative_class_weight = c.at("negative_class_weight");
  const auto assigner = build_target_assigner(parsed.node(), options);

  Groundtruth truth;
  truth.boxes = tensor(golden.at("gt_boxes"));
  truth.classes = one_hot;
  const json& weights = golden.at("gt_weight_sets").at(c.at("gt_weights").get<std::string>());
  if (!weights.is_null()) truth.weights = tensor(weights);
  const Targets targets = assigner->assign(anchors, truth);

  const at::Tensor match = tensor(c.at("match"), at::kLong);
  EXPECT_TRUE(at::equal(targets.match.box, match)) << what << " match " << targets.match.box << " expected " << match;
  EXPECT_TRUE(at::equal(assigner->match(anchors, truth, /*general=*/true).box, match)) << what << " general match";
  expect_close(targets.classes.of_anchors(), tensor(c.at("cls_targets")), 0, 0, what + " classes");
  expect_close(targets.boxes, tensor(c.at("reg_targets")), 1e-5, 1e-5, what + " boxes");
  expect_close(targets.box_weights, tensor(c.at("reg_weights")), 0, 0, what + " box weights");
  ASSERT_TRUE(c.at("cls_weights_all_equal_over_classes").get<bool>()) << what;
  expect_close(targets.classes.weights_of_anchors(), tensor(c.at("cls_weights_col0")).unsqueeze(-1), 0, 0,
               what + " class weights");
}

TEST(TargetAssignerGolden, EveryCaseAgrees) {
  const auto files = osprey::testing::golden_files("target_assigner.json");
  ASSERT_FALSE(files.empty());
  for (const auto& path : files) {
    const json golden = osprey::testing::read_json(path);
    const std::string file = path.filename().string();
    ASSERT_EQ(golden.at("box_coder"), "faster_rcnn 10,10,5,5") << file;
    for (const auto& [key, value] : golden.items())
      EXPECT_TRUE(value.is_string() || key == "cases" || key == "anchors" || key == "gt_boxes" ||
                  key == "gt_weight_sets" || key == "gt_classes_one_hot_without_background")
          << "nobody reads '" << key << "' of " << file;
    ASSERT_FALSE(golden.at("cases").empty());
    for (const json& c : golden.at("cases"))
      check_case(golden, c,
                 file + " " + c.at("matcher").get<std::string>() + " " + c.at("gt_weights").get<std::string>());
  }
}

}  // namespace
}  // namespace osprey::targets
