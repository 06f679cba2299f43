// Every data set and every result of golden/eval_metrics.json, from the original's own evaluators.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <regex>

#include "osprey/eval/metrics.h"
#include "osprey/eval/pascal_metrics.h"
#include "support/golden.h"

namespace osprey::eval {
namespace {

using nlohmann::json;

std::vector<Category> categories_of(const json& data_set) {
  std::vector<Category> categories;
  for (const json& category : data_set.at("categories")) categories.push_back({category.at("id"), category.at("name")});
  return categories;
}

std::vector<BoxPx> boxes_of(const json& boxes) {
  std::vector<BoxPx> result;
  for (const json& box : boxes) result.push_back({box[0], box[1], box[2], box[3]});
  return result;
}

std::vector<uint8_t> flags_of(const json& flags) {
  std::vector<uint8_t> result;
  for (const json& flag : flags) result.push_back(flag.get<bool>() ? 1 : 0);
  return result;
}

/// `order_of_ties` > 0 draws another order of equal scores: numpy's argsort, with which the original sorts, leaves it
/// open in lists of more than 16 (another one with another instruction set).
void add_images(DetectionMetrics& metrics, const json& data_set, bool with_crowd, unsigned order_of_ties = 0) {
  std::minstd_rand draws(order_of_ties);
  for (const json& image : data_set.at("images")) {
    ImageGroundTruth truth{.boxes_px = boxes_of(image.at("gt_boxes")),
                           .classes = image.at("gt_classes"),
                           .is_crowd = with_crowd ? flags_of(image.at("is_crowd")) : std::vector<uint8_t>(),
                           .difficult = flags_of(image.at("difficult")),
                           .group_of = flags_of(image.at("group_of")),
                           .height = image.at("height"),
                           .width = image.at("width")};
    ImageDetections found{boxes_of(image.at("det_boxes")), image.at("det_scores"), image.at("det_classes")};
    if (order_of_ties > 0)
      for (auto& score : found.scores) score *= 1 - 1e-6f * static_cast<float>(draws() % 1024) / 1024;
    metrics.add_image(image.at("id"), truth, found);
  }
}

// The metric that a result's key names: kind, then "@threshold", "_lower-upper" or "_group_of_weight_w".
std::unique_ptr<DetectionMetrics> metric_for(const std::string& key, const std::vector<Category>& categories) {
  std::smatch found;
  if (key == "coco" || key == "coco_without_is_crowd") return make_metrics("coco_detection_metrics", categories);
  if (std::regex_match(key, found, std::regex("(weighted_)?pascal_voc@([0-9.]+)(_without_difficult_flags)?"))) {
    PascalOptions options{.iou_threshold = std::stod(found[2])};
    if (found[1].matched) {
      options.prefix = "WeightedPascalBoxes";
      options.weighted_mean = true;
    }
    options.use_difficult = !found[3].matched;
    return make_pascal_metrics(categories, options);
  }
  if (std::regex_match(key, found, std::regex("precision_at_recall_([0-9.]+)-([0-9.]+)")))
    return make_metrics("precision_at_recall_detection_metrics", categories,
                        {.recall_lower_bound = std::stod(found[1]), .recall_upper_bound = std::stod(found[2])});
  if (key == "open_images_v2") return make_metrics("oid_V2_detection_metrics", categories);
  if (std::regex_match(key, found, std::regex("open_images_challenge_group_of_weight_([0-9.]+)")))
    return make_pascal_metrics(categories, {.prefix = "OpenImagesDetectionChallenge",
                                            .use_difficult = false,
                                            .use_group_of = true,
                                            .group_of_weight = std::stod(found[1]),
                                            .only_annotated_classes = true});
  return nullptr;
}

/// Whether some order of equal scores gives exactly this number.
bool some_order_of_ties_gives(const std::string& key, const json& data_set, const std::string& name, double number) {
  for (unsigned order = 1; order <= 2000; ++order) {
    const auto metrics = metric_for(key, categories_of(data_set));
    add_images(*metrics, data_set, true, order);
    for (const MetricValue& value : metrics->values())
      if (value.name == name && std::abs(value.value - number) < 1e-9) return true;
  }
  return false;
}

TEST(EvalMetrics, AgreeWithEveryResultOfTheOriginal) {
  for (const auto& file : testing::golden_files("eval_metrics.json")) {
    const json contents = testing::read_json(file);
    for (const json& data_set : contents.at("data_sets")) {
      const std::vector<Category> categories = categories_of(data_set);
      for (const auto& [key, expected] : data_set.at("results").items()) {
        SCOPED_TRACE(file.string() + ": " + data_set.at("name").get<std::string>() + ": " + key);
        const auto metrics = metric_for(key, categories);
        if (!metrics) {
          ADD_FAILURE() << "nobody consumes this result";
          continue;
        }
        add_images(*metrics, data_set, key != "coco_without_is_crowd");
        std::map<std::string, double> values;
        for (const MetricValue& value : metrics->values()) values[value.name] = value.value;
        const bool is_coco = key.rfind("coco", 0) == 0;
        for (const auto& [name, number] : expected.items()) {
          ASSERT_TRUE(values.count(name)) << name;
          const double want = number.is_null() || (is_coco && number.get<double>() == -1) ? NAN : number.get<double>();
          if (std::isnan(want))
            EXPECT_TRUE(std::isnan(values[name])) << name << " is " << values[name] << ", expected none";
          else if (std::abs(values[name] - want) > 1e-9 && key.rfind("weighted", 0) == 0)
            EXPECT_TRUE(some_order_of_ties_gives(key, data_set, name, want))
                << name << " is " << values[name] << ", and " << want << " in no order of equal scores";
          else
            EXPECT_NEAR(values[name], want, 1e-9) << name;
        }
        EXPECT_EQ(values.size(), expected.size());
      }
    }
  }
  if (!testing::test_data()) GTEST_SKIP() << testing::kNoTestData;
}

}  // namespace
}  // namespace osprey::eval
