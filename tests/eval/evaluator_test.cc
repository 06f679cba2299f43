#include "osprey/eval/evaluator.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "eval/parrot.h"
#include "osprey/base/error.h"
#include "osprey/config/parse.h"
#include "osprey/config/pipeline.h"
#include "osprey/eval/checkpoint_evaluator.h"
#include "osprey/eval/event_writer.h"
#include "osprey/eval/report.h"
#include "support/golden.h"
#include "support/temp_dir.h"

namespace osprey::eval {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

TEST(Evaluator, ADetectorThatIsRightScoresOneInPixelsOfTheOriginal) {
  const EvaluationResult result = run(truth_itself, {batch_of_two()}, 2);
  EXPECT_NEAR(result.value("DetectionBoxes_Precision/mAP"), 1, 1e-9);
  EXPECT_NEAR(result.value("DetectionBoxes_Precision/mAP (large)"), 1, 1e-9);
  EXPECT_TRUE(std::isnan(result.value("DetectionBoxes_Precision/mAP (small)")));
  EXPECT_NEAR(result.value("Loss/total_loss"), 3, 1e-9);
  EXPECT_EQ(result.num_images, 2);
  EXPECT_TRUE(result.explanations.empty());
  EXPECT_THAT(text_report(result), HasSubstr("area=   all | maxDets=100 ] = 1.000"));
}

TEST(Evaluator, ASquareOnTheLimitBetweenTwoSizesHasBoth) {
  // 32 x 32 pixels are the largest small object and the smallest one of medium size, even where the sides of the
  // picture have no exact fractions.
  Batch batch = batch_of_two();
  batch.original_sizes = at::full({2, 2}, 192, at::kLong);
  batch.boxes.select(1, 0).copy_(at::tensor({80.0f, 96.0f, 112.0f, 128.0f}) / 192);
  const EvaluationResult result = run(truth_itself, {batch}, 2);
  EXPECT_NEAR(result.value("DetectionBoxes_Precision/mAP (small)"), 1, 1e-9);
  EXPECT_NEAR(result.value("DetectionBoxes_Precision/mAP (medium)"), 1, 1e-9);
}

TEST(Evaluator, AFalseAlarmOnTheLimitBetweenTwoSizesIsWrongInBoth) {
  // Each picture has an object of 32 x 32 pixels, found with score 0.5 after a false alarm of 32 x 32 pixels. As pixel
  // numbers of float32 the far edges of the false alarm lie a little farther: 60 of 427 is 60.0000019.
  Batch batch = batch_of_two();
  batch.original_sizes = at::full({2, 2}, 427, at::kLong);
  batch.boxes.select(1, 0).copy_(at::tensor({100.0f, 100.0f, 132.0f, 132.0f}) / 427);
  const auto alarmed = [](const Batch& shown) {
    Detections found = truth_itself(shown);
    found.boxes = found.boxes.clone();
    found.boxes.select(1, 1).copy_(at::tensor({28.0f, 28.0f, 60.0f, 60.0f}) / 427);
    found.scores = at::tensor({0.5f, 0.9f}).expand({2, 2});
    found.count = at::full({2}, 2, at::kLong);
    return found;
  };
  const EvaluationResult result = run(alarmed, {batch}, 2);
  EXPECT_NEAR(result.value("DetectionBoxes_Precision/mAP (small)"), 0.5, 1e-9);
  EXPECT_NEAR(result.value("DetectionBoxes_Precision/mAP (medium)"), 0.5, 1e-9);
}

TEST(Evaluator, LossesAreMeansOverBatchesThatAreNormalisedByThemselves) {
  // Parrot's losses are 3 an image of weight, its matches the weights: 3 where these are at least 1, else 3 times them.
  Batch light = batch_of_two("a", "b");
  light.image_weights = at::full({2}, 0.25);
  EXPECT_NEAR(run(truth_itself, {batch_of_two(), light}, 4).value("Loss/total_loss"), (3 + 1.5) / 2, 1e-6);
}

TEST(Evaluator, ImagesThatFillUpTheLastBatchDoNotCount) {
  Batch last = batch_of_two("a", "b");
  last.image_weights[1] = 0;
  last.classes[1][0] = 1;  // would be an object of the other class
  const EvaluationResult result = run(truth_itself, {batch_of_two(), last}, 3);
  EXPECT_EQ(result.num_images, 3);
  EXPECT_EQ(result.per_class[1].num_ground_truth, 0);
}

TEST(EvaluationOptions, WhatIsListedAsIgnoredIsNotRefused) {
  const auto config = config::parse<proto::EvalConfig>("eval_instance_masks: true parameterized_metric {}", "test");
  EXPECT_NO_THROW(evaluation_options(config.node()));
}

TEST(Evaluator, BrokenImagesAreThoseOfTheDataSet) {
  class Broken : public Parrot {
   public:
    using Parrot::Parrot;
    Predictions predict(const models::ModelInput& input) override {
      Predictions result = Parrot::predict(input);
      result.class_logits = at::full({input.images.size(0), 4, 2}, NAN);
      return result;
    }
  } model([](const Batch& batch) {
    Detections none = truth_itself(batch);
    none.count.zero_();
    return none;
  });
  Batch last = batch_of_two("a", "b");
  last.image_weights[1] = 0;
  ListSource source({last}, 1);
  const EvaluationResult result = evaluate(model, source, kCategories, {.compute_loss = false});
  EXPECT_THAT(result.explanations, Contains(HasSubstr("1 of 1 images")));
}

TEST(Evaluator, SharesTogetherGiveWhatOneProcessGives) {
  std::vector<Batch> batches;
  for (int i = 0; i < 5; ++i) {
    batches.push_back(batch_of_two("twin", i == 3 ? "" : std::to_string(i)));
    batches.back().images.fill_(40 * i);
    batches.back().boxes.mul_(1 + 0.37 * i);
    batches.back().classes.fill_(i % 2);
  }
  batches.back().image_weights[1] = 0;
  const auto almost = [](const Batch& batch) {  // worse from batch to batch, by one sort of error each
    Detections found = truth_itself(batch);
    found.scores = found.scores - batch.boxes.select(2, 0);
    found.boxes = found.boxes * (1 + 0.1 * batch.boxes.max());
    found.classes = (found.classes + (batch.boxes.max() > 0.3).to(at::kLong)) % 2;
    return found;
  };
  const EvaluationOptions options{.num_visualizations = 4, .gallery_images = 3};
  const EvaluationResult whole = run(almost, batches, 9, options);
  ASSERT_TRUE(whole.at_iou_50);
  EXPECT_GT(whole.at_iou_50->operating_point.all.true_positives, 0);
  ASSERT_FALSE(whole.gallery.worst.empty());
  ASSERT_FALSE(whole.gallery.best.empty());
  for (const int64_t shares : {2, 3, 7}) {
    std::vector<std::string> found;
    for (int64_t share = shares - 1; share >= 0; --share) {
      std::vector<Batch> own;
      for (size_t i = static_cast<size_t>(share); i < batches.size(); i += static_cast<size_t>(shares))
        own.push_back(batches[i]);
      Parrot model(almost);
      ListSource source(own, 9);
      const auto gather = [&](const std::string& bytes) {
        found.insert(found.begin(), bytes);
        return share == 0 ? found : std::vector<std::string>();
      };
      ListSource all(batches, 9);
      const auto whole_source = [&]() -> data::BatchSource& { return all; };
      const auto result = evaluate_share(model, source, kCategories, options, {share, shares, gather, whole_source});
      ASSERT_EQ(result.has_value(), share == 0);
      if (!result) continue;
      EXPECT_EQ(metrics_json(*result, 1), metrics_json(whole, 1)) << shares << " shares";
      EXPECT_EQ(detections_json(*result), detections_json(whole));
      for (const auto list : {&Gallery::worst, &Gallery::best}) {
        ASSERT_EQ((result->gallery.*list).size(), (whole.gallery.*list).size());
        for (size_t i = 0; i < (whole.gallery.*list).size(); ++i) {
          EXPECT_EQ((result->gallery.*list)[i].id, (whole.gallery.*list)[i].id);
          EXPECT_EQ((result->gallery.*list)[i].jpeg, (whole.gallery.*list)[i].jpeg);
        }
      }
      ASSERT_EQ(result->pictures.size(), whole.pictures.size());
      for (size_t i = 0; i < whole.pictures.size(); ++i) {
        EXPECT_EQ(result->pictures[i].tag, whole.pictures[i].tag);
        EXPECT_EQ(result->pictures[i].id, whole.pictures[i].id);
        EXPECT_TRUE(at::equal(result->pictures[i].image, whole.pictures[i].image));
      }
    }
  }
}

TEST(Evaluator, AShareThatIsStoppedStopsTheWhole) {
  for (const int64_t stopped : {0, 1}) {
    std::vector<std::string> found;
    for (const int64_t share : {1, 0}) {
      Parrot model(truth_itself);
      ListSource source({batch_of_two()}, 4);
      const EvaluationOptions options{.should_stop = [&] { return share == stopped; }};
      const auto gather = [&](const std::string& bytes) {
        found.insert(found.begin(), bytes);
        return share == 0 ? found : std::vector<std::string>();
      };
      const auto result = evaluate_share(model, source, kCategories, options, {share, 2, gather});
      ASSERT_EQ(result.has_value(), share == 0);
      EXPECT_EQ(result && result->stopped, share == 0);
    }
  }
}

TEST(Evaluator, EveryImageOfTheDataSetMustHaveBeenSeen) {
  EXPECT_THROW(run(truth_itself, {batch_of_two()}, 3), DataError);
}

TEST(Evaluator, UnusableRecordsAreCountedInEveryEvaluation) {
  class Skipping final : public data::BatchSource {
   public:
    std::optional<Batch> next() override { return at_++ == 0 ? std::optional(batch_of_two()) : std::nullopt; }
    void seek(int64_t index) override { at_ = index; }
    int64_t position() const override { return at_; }
    int64_t num_examples() const override { return 3; }
    int64_t num_skipped() const override { return 1; }  // a source counts a record once

   private:
    int64_t at_ = 0;
  } source;
  Parrot model(truth_itself);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(evaluate(model, source, kCategories, {}).num_skipped, 1);
}

TEST(Evaluator, ImagesWithEqualOrMissingIdsCountEach) {
  EXPECT_EQ(run(truth_itself, {batch_of_two("x", "x"), batch_of_two("", "")}, 4).num_images, 4);
}

TEST(Evaluator, SaysWhyTheScoreIsZeroOrMissing) {
  EXPECT_THAT(run(nothing, {batch_of_two()}, 2).explanations, Contains(HasSubstr("nothing was detected on 2 images")));
  Batch empty = batch_of_two();
  empty.valid.zero_();
  EXPECT_THAT(run(truth_itself, {empty}, 2).explanations,
              Contains(HasSubstr("none of the 2 images has an annotated object")));
  const auto shifted = [](const Batch& batch) {
    Detections found = truth_itself(batch);
    found.classes = found.classes + 1;
    return found;
  };
  EXPECT_THAT(run(shifted, {batch_of_two()}, 2).explanations, Contains(HasSubstr("annotated ids 1, detected ids 2")));
  const auto broken = [](const Batch& batch) {
    Detections found = truth_itself(batch);
    found.scores = found.scores * NAN;
    return found;
  };
  EXPECT_THAT(run(broken, {batch_of_two()}, 2).explanations, Contains(HasSubstr("2 detections were NaN")));
  Batch foreign = batch_of_two();
  foreign.classes.fill_(6);
  EXPECT_THAT(run(nothing, {foreign}, 2).explanations,
              Contains(HasSubstr("2 of 2 objects have an id that the label map lacks")));
}

TEST(Evaluator, CanBeStopped) {
  const EvaluationResult result = run(truth_itself, {batch_of_two()}, 2, {.should_stop = [] { return true; }});
  EXPECT_TRUE(result.stopped);
}

TEST(Evaluator, LeavesTheModelInTheModeItHad) {
  Parrot model(truth_itself);
  ListSource source({batch_of_two()}, 2);
  model.train();
  evaluate(model, source, kCategories, {});
  EXPECT_TRUE(model.is_training());
}

TEST(Evaluator, SeveralMetricSetsStandBesideEachOther) {
  const EvaluationResult result = run(truth_itself, {batch_of_two()}, 2,
                                      {.metrics_set = {"pascal_voc_detection_metrics", "coco_detection_metrics"}});
  EXPECT_NEAR(result.value("PascalBoxes_Precision/mAP@0.5IOU"), 1, 1e-9);
  EXPECT_NEAR(result.value("DetectionBoxes_Precision/mAP@.50IOU"), 1, 1e-9);
  EXPECT_NEAR(result.per_class[0].ap50, 1, 1e-9);
}

TEST(Evaluator, WritesMetricsDetectionsAndPictures) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "evaluator_files";
  std::filesystem::remove_all(folder);
  const EvaluationOptions options{.num_visualizations = 1,
                                  .detections_file = (folder / "out" / "found.json").string(),
                                  .visualization_dir = (folder / "pictures").string()};
  const EvaluationResult result = run(truth_itself, {batch_of_two("7", "b/c")}, 2, options);
  ASSERT_EQ(result.pictures.size(), 1u);
  EXPECT_EQ(result.pictures[0].tag, "eval_side_by_side_0_0");
  {
    EventWriter events((folder / "eval").string());
    write_evaluation(result, (folder / "eval").string(), 40, options, &events);
  }
  const auto metrics = testing::read_json(folder / "eval" / "metrics_40.json");
  EXPECT_EQ(metrics.at("num_images"), 2);
  EXPECT_EQ(metrics.at("num_skipped"), 0);
  EXPECT_NEAR(metrics.at("metrics").at("DetectionBoxes_Precision/mAP").get<double>(), 1, 1e-9);
  EXPECT_TRUE(metrics.at("metrics").at("DetectionBoxes_Precision/mAP (small)").is_null());
  EXPECT_EQ(metrics.at("per_class").at(1).at("name"), "dog");
  EXPECT_TRUE(metrics.at("per_class").at(1).at("AP").is_null());
  const auto detections = testing::read_json(folder / "eval" / "detections_40.json");
  ASSERT_EQ(detections.size(), 2u);
  EXPECT_EQ(detections.at(0).at("image_id"), 7);
  EXPECT_EQ(detections.at(1).at("image_id"), "b/c");
  EXPECT_NEAR(detections.at(0).at("bbox").at(2).get<double>(), 200, 1e-3);  // width
  EXPECT_EQ(testing::read_json(options.detections_file), detections);
  EXPECT_TRUE(std::filesystem::exists(folder / "pictures" / "export-eval_side_by_side_0_0-40.png"));
  std::filesystem::remove_all(folder);
}

TEST(Evaluator, WhereTheMetricsAreAllResultsAre) {
  const testing::TempDir folder;
  std::filesystem::create_directories(folder / "detections_40.json/in_the_way");
  const EvaluationResult result = run(truth_itself, {batch_of_two()}, 2);
  EXPECT_THROW(write_evaluation(result, folder.path(), 40, {}, nullptr), DataError);
  EXPECT_FALSE(std::filesystem::exists(metrics_file(folder.path(), 40)));
  std::filesystem::remove_all(folder / "detections_40.json");
  write_evaluation(result, folder.path(), 40, {}, nullptr);
  EXPECT_TRUE(std::filesystem::exists(metrics_file(folder.path(), 40)));
}

TEST(Evaluator, TheFileHasCurvesAnOperatingPointAndConfusions) {
  const auto half = [](const Batch& batch) {  // finds the first picture's object, and takes the second's for a dog
    Detections found = truth_itself(batch);
    found.classes = found.classes.clone();
    found.classes[1] = 1;
    found.scores = at::full_like(found.scores, 0.5);
    return found;
  };
  const std::string text = metrics_json(run(half, {batch_of_two()}, 2), 1);
  EXPECT_THAT(text, HasSubstr("\"counts\": [\n          [1,1,0],\n          [0,0,0],\n          [0,0,0]\n        ]"));
  const auto at = nlohmann::json::parse(text).at("at_iou_50");
  const auto& curves = at.at("precision_recall");
  EXPECT_EQ(curves.at("recall").size(), 101u);
  EXPECT_EQ(curves.at("recall").at(7), 0.07);
  EXPECT_EQ(curves.at("mean_precision").size(), 101u);
  EXPECT_EQ(curves.at("per_class").at(0).at("name"), "cat");
  EXPECT_NEAR(curves.at("per_class").at(0).at("precision").at(50).get<double>(), 1, 1e-12);
  EXPECT_EQ(curves.at("per_class").at(0).at("precision").at(51), 0);
  EXPECT_EQ(curves.at("per_class").at(0).at("score").at(50), 0.5);
  EXPECT_TRUE(curves.at("per_class").at(0).at("score").at(51).is_null());
  EXPECT_TRUE(curves.at("per_class").at(1).at("precision").is_null());
  const auto& point = at.at("operating_point");
  EXPECT_EQ(point.at("score_threshold"), 0.5);
  EXPECT_EQ(point.at("all").at("true_positives"), 1);
  EXPECT_EQ(point.at("per_class").at(0).at("false_negatives"), 1);
  EXPECT_EQ(point.at("per_class").at(1).at("false_positives"), 1);
  EXPECT_TRUE(point.at("per_class").at(1).at("F1").is_null());
  EXPECT_EQ(point.at("confusion_matrix").at("rows"), (nlohmann::json{"cat", "dog", "background"}));
  EXPECT_EQ(point.at("confusion_matrix").at("columns"), (nlohmann::json{"cat", "dog", "missed"}));
}

TEST(Evaluator, AMetricWithoutMatchesAtIou50LeavesThemOut) {
  const EvaluationResult result =
      run(truth_itself, {batch_of_two()}, 2, {.metrics_set = {"pascal_voc_detection_metrics"}});
  EXPECT_FALSE(result.at_iou_50);
  EXPECT_FALSE(nlohmann::json::parse(metrics_json(result, 1)).contains("at_iou_50"));
}

TEST(EvaluationCategories, AreTheClassesThatTheLabelMapHas) {
  const osprey::testing::TempDir folder;
  osprey::testing::write_file(folder / "own",
                              "item { id: 1 name: 'cat' } item { id: 3 name: 'n3' display_name: 'dog' }");
  osprey::testing::write_file(folder / "training", "item { id: 2 name: 'bird' }");
  const auto of = [&](const std::string& own, const std::string& training, int64_t num_classes) {
    const auto pipeline = config::parse_pipeline("train_input_reader { label_map_path: '" + folder / training +
                                                 "' } eval_input_reader {" + own + "}");
    std::vector<std::pair<int64_t, std::string>> result;
    for (const Category& category : evaluation_categories(pipeline.root(), 0, num_classes))
      result.emplace_back(category.id, category.name);
    return result;
  };
  using ::testing::ElementsAre;
  using ::testing::Pair;
  const std::string own = "label_map_path: '" + folder / "own" + "'";
  EXPECT_THAT(of(own, "training", 3), ElementsAre(Pair(1, "cat"), Pair(3, "dog"))) << "a gap is no class";
  EXPECT_THAT(of("", "training", 3), ElementsAre(Pair(2, "bird")));
  EXPECT_THAT(of("", "elsewhere", 2), ElementsAre(Pair(1, "class 1"), Pair(2, "class 2")));
  EXPECT_THAT([&] { of(own, "training", 2); },
              ::testing::ThrowsMessage<ConfigError>(HasSubstr("eval_input_reader[0].label_map_path")));
  EXPECT_THAT([&] { of("", "training", 1); },
              ::testing::ThrowsMessage<ConfigError>(HasSubstr("train_input_reader.label_map_path")));
}

TEST(Evaluator, BytesThatAreNotUtf8AreReplacedInTheFiles) {
  EvaluationResult result;
  result.per_class.push_back({.category = {1, "caf\xe9"}});  // Latin-1
  EXPECT_THAT(metrics_json(result, 1), HasSubstr("caf\xef\xbf\xbd"));
}

}  // namespace
}  // namespace osprey::eval
