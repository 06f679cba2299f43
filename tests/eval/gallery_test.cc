#include "osprey/eval/gallery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "eval/gallery_page.h"
#include "eval/gallery_ranking.h"
#include "eval/parrot.h"
#include "osprey/base/error.h"
#include "osprey/config/parse.h"
#include "osprey/data/image_codec.h"
#include "support/golden.h"
#include "support/temp_dir.h"

namespace osprey::eval {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::ThrowsMessage;

const BoxPx kLeftBox = {10, 10, 50, 50}, kMiddleBox = {200, 200, 240, 240}, kRightBox = {400, 400, 440, 440};

ImageGroundTruth truth_of(const std::vector<BoxPx>& boxes, const std::vector<int64_t>& classes) {
  return {.boxes_px = boxes, .classes = classes};
}

std::vector<std::string> ids(const std::vector<GalleryImage>& images) {
  std::vector<std::string> result;
  for (const GalleryImage& image : images) result.push_back(image.id);
  return result;
}

// From 0.5 up:            right  missed  false  confused
//   two missed              0      2       0       0
//   unsure alarm            1      0       1       0      0.6
//   sure alarm              1      0       1       0      0.9, and one of 0.4 that does not count
//   cat for dog             0      0       0       1      0.7
//   right, twice right      1, 2   0       0       0
//   nothing                 0      0       0       0
GalleryRanking ranking() {
  GalleryRanking ranking(kCategories);
  ranking.add({.id = "two missed"}, truth_of({kLeftBox, kRightBox}, {1, 2}), {});
  ranking.add({.id = "unsure alarm"}, truth_of({kLeftBox}, {1}), {{kLeftBox, kRightBox}, {0.8, 0.6}, {1, 1}});
  ranking.add({.id = "sure alarm"}, truth_of({kLeftBox}, {1}),
              {{kRightBox, kLeftBox, kMiddleBox}, {0.4, 0.8, 0.9}, {1, 1, 2}});
  ranking.add({.id = "cat for dog"}, truth_of({kLeftBox}, {1}), {{kLeftBox}, {0.7}, {2}});
  ranking.add({.id = "right"}, truth_of({kLeftBox}, {1}), {{kLeftBox}, {0.8}, {1}});
  ranking.add({.id = "twice right"}, truth_of({kLeftBox, kRightBox}, {1, 2}),
              {{kLeftBox, kRightBox}, {0.8, 0.8}, {1, 2}});
  ranking.add({.id = "nothing"}, {}, {});
  return ranking;
}

TEST(Gallery, MostErrorsComeFirstThenTheSurestOnes) {
  const Gallery all = ranking().chosen(0.5, 10);
  EXPECT_THAT(ids(all.worst), ElementsAre("two missed", "sure alarm", "cat for dog", "unsure alarm"));
  EXPECT_THAT(ids(all.best), ElementsAre("twice right", "right")) << "nothing is not right";
  const GalleryImage& sure = all.worst[1];
  EXPECT_EQ(error_summary(sure), "1 error: 1 false alarm; 1 right");
  EXPECT_NEAR(sure.error_score, 0.9, 1e-12);
  EXPECT_EQ(error_summary(all.worst[0]), "2 errors: 2 missed; 0 right");
  EXPECT_EQ(error_summary(all.worst[2]), "1 error: 1 confused; 0 right");
}

TEST(Gallery, AnImageIsAmongTheWorstOrTheBest) {
  const Gallery two = ranking().chosen(0.5, 2);
  EXPECT_THAT(ids(two.worst), ElementsAre("two missed", "sure alarm"));
  EXPECT_THAT(ids(two.best), ElementsAre("twice right", "right"));
  const Gallery three = ranking().chosen(0.5, 3);
  EXPECT_THAT(ids(three.best), ElementsAre("twice right", "right", "unsure alarm"))
      << "with an error, but the next best of those left";
}

TEST(Gallery, EveryBoxFromTheThresholdUpIsJudged) {
  const Gallery gallery = ranking().chosen(0.5, 10);
  const GalleryImage &sure = gallery.worst[1], &confused = gallery.worst[2];
  ASSERT_EQ(sure.detections.size(), 2u) << "0.4 is below the threshold";
  EXPECT_EQ(sure.detections[0].verdict, Verdict::kRight);
  EXPECT_EQ(sure.detections[1].verdict, Verdict::kFalseAlarm);
  EXPECT_THAT(sure.detections[1].box_xywh, ElementsAre(200, 200, 40, 40));
  EXPECT_EQ(sure.objects[0].verdict, Verdict::kRight);
  EXPECT_EQ(gallery.worst[0].objects[1].verdict, Verdict::kMissed);
  EXPECT_EQ(confused.detections[0].verdict, Verdict::kConfused);
  EXPECT_EQ(confused.detections[0].other, 0);
  EXPECT_EQ(confused.objects[0].other, 1);
}

TEST(Gallery, WhatCountsNeitherWayIsNoError) {
  GalleryRanking ranking(kCategories);
  ImageGroundTruth crowd = truth_of({{0, 0, 100, 100}, kMiddleBox}, {1, 1});
  crowd.is_crowd = {1, 0};
  ranking.add({.id = "a"}, crowd, {{{10, 10, 50, 50}, kMiddleBox}, {0.9, 0.8}, {1, 1}});
  const Gallery gallery = std::move(ranking).chosen(0.1, 5);
  EXPECT_THAT(gallery.worst, IsEmpty());
  EXPECT_EQ(gallery.best.at(0).detections.at(0).verdict, Verdict::kLeftOut);
  EXPECT_EQ(gallery.best.at(0).objects.at(0).verdict, Verdict::kLeftOut);
}

TEST(Gallery, WithoutAThresholdEverythingIsMissed) {
  const Gallery gallery = ranking().chosen(kNotAvailable, 10);
  EXPECT_THAT(gallery.best, IsEmpty());
  EXPECT_EQ(gallery.worst.size(), 6u);
  for (const GalleryImage& image : gallery.worst) EXPECT_THAT(image.detections, IsEmpty());
}

// The first picture's object is found, the second's taken for a dog; and there is one of 400 x 800 that is nothing.
Detections half(const Batch& batch) {
  Detections found = truth_itself(batch);
  found.classes = found.classes.clone();
  found.classes[1][0] = 1;
  found.boxes = found.boxes.clone();
  found.boxes[1][1].copy_(at::tensor({0.5, 0.5, 0.9, 0.9}, at::kFloat));
  found.count = at::tensor({1, 2}, at::kLong);
  return found;
}

std::array<int, 3> pixel(const at::Tensor& picture, int64_t y, int64_t x) {
  const at::Tensor rgb = picture[y][x].to(at::kInt);
  return {rgb[0].item<int>(), rgb[1].item<int>(), rgb[2].item<int>()};
}

TEST(Gallery, PicturesShowErrorsInTheirColours) {
  const Gallery gallery = run(half, {batch_of_two(), batch_of_two("8", "10")}, 4, {.gallery_images = 1}).gallery;
  ASSERT_EQ(gallery.worst.size(), 1u);
  EXPECT_EQ(gallery.worst[0].id, "9") << "of equals the first";
  EXPECT_EQ(gallery.best.at(0).id, "7");
  const at::Tensor picture = data::decode_image(gallery.worst[0].jpeg);
  ASSERT_EQ(picture.size(0), 512);  // 1000 x 2000, scaled to 1024 at most, twice
  ASSERT_EQ(picture.size(1), 2 * 1024 + 4);
  // Right edges of boxes: the confusion ends at x = 0.2, the false alarm at 0.9.
  const auto [red, green, blue] = pixel(picture, 358, 922);
  EXPECT_GT(red, 200);
  EXPECT_LT(std::max(green, blue), 160);
  const auto amber = pixel(picture, 77, 205);
  EXPECT_GT(amber[0], 200);
  EXPECT_NEAR(amber[1], 190, 40);
  EXPECT_LT(amber[2], 120);
  EXPECT_NEAR(pixel(picture, 77, 1028 + 205)[1], 190, 40) << "the object on the right";
  EXPECT_NEAR(pixel(picture, 358, 1028 + 922)[0], 50, 12) << "where nothing is annotated";
}

TEST(Gallery, WritesAPageWithNumbersAndPicturesOfThisTime) {
  const testing::TempDir folder;
  const EvaluationOptions options{.gallery_images = 5};
  const EvaluationResult result = run(half, {batch_of_two(), batch_of_two("8", "a/\"b\"<c>")}, 4, options);
  for (const char* name : {"worst_03.jpg", "worst_04.jpg", "mine_03.jpg"})
    testing::write_file(folder.path() / "gallery_40" / name, "of another time");
  write_evaluation(result, folder.path(), 40, options, nullptr);
  const std::filesystem::path gallery = folder.path() / "gallery_40";
  EXPECT_TRUE(std::filesystem::exists(gallery / "worst_02.jpg"));
  EXPECT_FALSE(std::filesystem::exists(gallery / "worst_03.jpg"));
  EXPECT_FALSE(std::filesystem::exists(gallery / "worst_04.jpg"));
  EXPECT_TRUE(std::filesystem::exists(gallery / "mine_03.jpg"));
  const auto json = testing::read_json(gallery / "gallery.json");
  EXPECT_EQ(json.at("step"), 40);
  EXPECT_NEAR(json.at("score_threshold").get<double>(), 0.9, 1e-6);
  ASSERT_EQ(json.at("worst").size(), 2u);
  const auto& worst = json.at("worst").at(0);
  EXPECT_EQ(worst.at("image_id"), 9);
  EXPECT_EQ(worst.at("picture"), "worst_01.jpg");
  EXPECT_EQ(worst.at("confused"), 1);
  EXPECT_EQ(worst.at("false_alarms"), 1);
  EXPECT_EQ(worst.at("errors").at(0).at("kind"), "confused");
  EXPECT_EQ(worst.at("errors").at(0).at("detected"), "dog");
  EXPECT_EQ(worst.at("errors").at(0).at("object"), "cat");
  EXPECT_NEAR(worst.at("errors").at(0).at("bbox").at(2).get<double>(), 200, 1e-3);
  EXPECT_EQ(worst.at("errors").at(1).at("kind"), "false_alarm");
  EXPECT_EQ(json.at("best").at(0).at("errors").size(), 0u);
  const std::string page = testing::read_file(gallery / "index.html");
  EXPECT_THAT(page, AllOf(HasSubstr("src=\"worst_01.jpg\""), HasSubstr("2 errors: 1 false alarm, 1 confused; 0 right"),
                          HasSubstr("1 dog, is cat (90%); 1 false cat (90%)"), HasSubstr("a/&quot;b&quot;&lt;c&gt;")));
  EXPECT_THAT(page, AllOf(Not(HasSubstr("<c>")), Not(HasSubstr("<script")), Not(HasSubstr("http"))));
}

TEST(Gallery, NothingIsWrittenThatIsNotAskedFor) {
  const testing::TempDir folder;
  write_evaluation(run(half, {batch_of_two()}, 2), folder.path(), 1, {}, nullptr);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "gallery_1"));
}

TEST(Gallery, APageOfADetectorThatIsRightHasNoErrors) {
  const std::string page = gallery_page(run(truth_itself, {batch_of_two()}, 2, {.gallery_images = 2}), 1);
  EXPECT_THAT(page, AllOf(HasSubstr("No image has an error."), HasSubstr("best_02.jpg")));
}

TEST(GalleryPage, HasTheCurvesOfClassesThatHaveObjects) {
  const EvaluationResult result = run(truth_itself, {batch_of_two()}, 2);
  const std::string svg = html_curves(result);
  EXPECT_THAT(svg, AllOf(HasSubstr("<title>cat</title>"), HasSubstr("<title>mean</title>"), Not(HasSubstr("dog"))));
  EXPECT_THAT(svg, HasSubstr("points=\"46.0,10.0 ")) << "precision 1 at recall 0";
  const std::string table = html_class_table(result);
  EXPECT_THAT(table, HasSubstr("<td>cat</td><td>1.000</td><td>1.000</td><td>1.000</td><td>1.000</td><td>1.000</td>"
                               "<td>1.000</td><td>2</td><td>0</td><td>0</td><td>2</td><td>2</td>"));
  EXPECT_THAT(table, HasSubstr("<td>dog</td><td>n/a</td>"));
  EXPECT_THAT(svg, HasSubstr(">cat</span><span")) << "a legend of what is drawn";
  EvaluationResult without = run(nothing, {batch_of_two()}, 2);
  without.at_iou_50->precision_recall.assign(2, {});
  without.at_iou_50->mean_precision.clear();
  EXPECT_THAT(html_curves(without), AllOf(Not(HasSubstr("<polyline")), Not(HasSubstr("mean"))));
}

TEST(GalleryPage, OfALargeLabelMapTheClassesThatAreDrawnHaveALegend) {
  EvaluationResult result;
  AtIou50& at = result.at_iou_50.emplace();
  for (int k = 0; k < 90; ++k) {
    result.per_class.push_back({.category = {k + 1, "class " + std::to_string(k)}});
    at.precision_recall.emplace_back();
    if (k % 30 == 0) at.precision_recall.back().precision.assign(101, 0.5);
  }
  EXPECT_THAT(html_curves(result), AllOf(HasSubstr(">class 60</span>"), Not(HasSubstr("class 61"))));
  for (PrecisionRecall& own : at.precision_recall) own.precision.assign(101, 0.5);
  EXPECT_THAT(html_curves(result), AllOf(HasSubstr("<title>class 61</title>"), Not(HasSubstr("</span>"))));
}

TEST(GalleryPage, OfManyClassesTheConfusionsOfFortyAreShown) {
  EvaluationResult result;
  result.at_iou_50.emplace();
  auto& confusion = result.at_iou_50->operating_point.confusion;
  confusion.assign(51, std::vector<int64_t>(51, 0));
  for (int k = 0; k < 50; ++k) {
    result.per_class.push_back({.category = {k + 1, "class<" + std::to_string(k) + ">"}});
    confusion[k][k] = 1000;
    confusion[50][k] = k;  // false alarms
  }
  const std::string html = html_confusion(result);
  EXPECT_THAT(html, AllOf(HasSubstr("class&lt;10&gt;"), HasSubstr("class&lt;49&gt;"), HasSubstr(">49</td>")));
  EXPECT_THAT(html, AllOf(Not(HasSubstr("class&lt;9&gt;")), HasSubstr("The 40 classes with most errors; 10 more")));
}

TEST(GalleryPage, NamesOfClassesAreEscapedEverywhere) {
  EvaluationOptions options{.gallery_images = 2};
  Parrot model(half);
  ListSource source({batch_of_two()}, 2);
  const std::vector<Category> hostile = {{1, "<img src=x onerror=alert(1)>"}, {2, "'\"&\xff"}};
  const std::string page = gallery_page(evaluate(model, source, hostile, options), 1);
  EXPECT_THAT(page, AllOf(Not(HasSubstr("<img src=x")), HasSubstr("&lt;img src=x onerror=alert(1)&gt;"),
                          HasSubstr("&#39;&quot;&amp;\uFFFD"), Not(HasSubstr("'\"&"))));
}

TEST(EvaluationOptions, AGalleryThatCannotBeMadeIsRefused) {
  const auto options_of = [](const std::string& text) {
    return evaluation_options(config::parse<proto::EvalConfig>(text, "test").node());
  };
  EXPECT_EQ(options_of("").gallery_images, 0);
  EXPECT_EQ(options_of("gallery_images: 200").gallery_images, 200);
  EXPECT_THAT([&] { options_of("gallery_images: 201"); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("gallery_images"), HasSubstr("must be <= 200, got 201"))));
  EXPECT_THAT([&] { options_of("gallery_images: 5 metrics_set: 'pascal_voc_detection_metrics'"); },
              ThrowsMessage<ConfigError>(HasSubstr("coco_detection_metrics")));
  EXPECT_THAT([&] { options_of("gallery_images: 5 ignore_groundtruth: true"); },
              ThrowsMessage<ConfigError>(HasSubstr("ignore_groundtruth")));
}

}  // namespace
}  // namespace osprey::eval
