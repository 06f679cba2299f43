#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "eval/parrot.h"
#include "osprey/base/error.h"
#include "osprey/config/parse.h"
#include "osprey/data/loader.h"
#include "osprey/data/record_file.h"
#include "support/example_record.h"
#include "support/temp_dir.h"

namespace osprey::eval {
namespace {
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int64_t kSide = 20;

/// A black picture of its own size with white objects, all cats, none of which touch.
Batch picture(int64_t height, int64_t width, const std::vector<std::array<int64_t, 4>>& boxes_px) {
  const auto count = static_cast<int64_t>(boxes_px.size());
  Batch batch;
  batch.images = at::zeros({1, height, width, 3}, at::kByte).permute({0, 3, 1, 2});
  batch.true_shapes = batch.original_sizes = at::tensor({height, width}, at::kLong).view({1, 2});
  batch.boxes = at::zeros({1, count, 4});
  batch.classes = at::zeros({1, count}, at::kLong);
  batch.valid = at::ones({1, count}, at::kBool);
  batch.image_weights = at::ones({1});
  batch.ids = {"sheet"};
  for (int64_t i = 0; i < count; ++i) {
    const auto [ymin, xmin, ymax, xmax] = boxes_px[static_cast<size_t>(i)];
    batch.images[0].slice(1, ymin, ymax).slice(2, xmin, xmax).fill_(255);
    batch.boxes[0][i].copy_(at::tensor({ymin, xmin, ymax, xmax}, at::kFloat) /
                            at::tensor({height, width, height, width}, at::kFloat));
  }
  return batch;
}

/// Finds what lies around all that is white in a tile; the last row is padding.
Detections white(const Batch& batch) {
  const int64_t size = batch.size();
  Detections found{at::zeros({size, 2, 4}), at::full({size, 2}, 0.9), at::zeros({size, 2}, at::kLong),
                   at::zeros({size}, at::kLong)};
  for (int64_t row = 0; row < size; ++row) {
    const at::Tensor places = batch.images[row][0].gt(128).nonzero();
    if (places.size(0) == 0) continue;
    found.count[row] = 1;
    const at::Tensor low = std::get<0>(places.min(0)), high = std::get<0>(places.max(0)) + 1;
    found.boxes[row][0].copy_(at::cat({low, high}).to(at::kFloat) / kSide);
  }
  return found;
}

EvaluationOptions in_tiles(double overlap, bool whole_picture = false) {
  const auto text = config::parse<proto::ImageResizer>("fixed_shape_resizer { height: 20 width: 20 }", "test");
  EvaluationOptions options;
  options.tiled.emplace();
  options.tiled->tiles = {.side_px = kSide, .overlap = overlap, .whole_picture = whole_picture};
  options.tiled->resizer = data::build_image_resizer(text.node());
  options.tiled->shape = {.batch_size = 3, .image = data::ImageSize{kSide, kSide}, .max_boxes = 1, .num_classes = 2};
  return options;
}

TEST(TiledEvaluation, FindsEachObjectOnceWhereItLies) {
  // Of 10 x 10 pixels and less, so that with an overlap of a half each lies whole in some tile of 20; and never two.
  const Batch sheet = picture(50, 90, {{3, 4, 11, 12}, {37, 41, 47, 50}, {20, 75, 29, 85}});
  const EvaluationResult result = run(white, {sheet}, 1, in_tiles(0.5));
  EXPECT_NEAR(result.value("DetectionBoxes_Precision/mAP"), 1, 1e-12);
  ASSERT_EQ(result.detections.size(), 1u);
  ASSERT_EQ(result.detections[0].found.boxes_px.size(), 3u) << "what several tiles show is found once";
  std::vector<BoxPx> found = result.detections[0].found.boxes_px;
  std::ranges::sort(found, {}, &BoxPx::ymin);
  EXPECT_NEAR(found[2].ymin, 37, 1e-4);
  EXPECT_NEAR(found[2].xmax, 50, 1e-4);
  // A side of tiles without overlap lies at x = 20.
  const Batch wide = picture(20, 40, {{3, 14, 8, 22}});
  EXPECT_EQ(run(white, {wide}, 1, in_tiles(0)).detections[0].found.boxes_px.size(), 2u) << "in two pieces";
  EXPECT_NEAR(run(white, {wide}, 1, in_tiles(0.5)).value("DetectionBoxes_Precision/mAP"), 1, 1e-12);
}

TEST(TiledEvaluation, APictureOfOneTileIsWhatThePlainEvaluationSees) {
  // Resized from 10 x 10: what is found is the same fraction, in pixels of the original.
  const Batch small = picture(10, 10, {{2, 3, 7, 9}});
  EvaluationOptions options = in_tiles(0.2, /*whole_picture=*/true);
  const EvaluationResult tiled = run(white, {small}, 1, options);
  data::Collation collation(options.tiled->shape, options.tiled->resizer);
  Example example;
  example.image = small.images[0].permute({1, 2, 0});
  example.boxes = {{.2f, .3f, .7f, .9f}};
  example.classes = {0};
  example.original_height = example.original_width = 10;
  collation.put(0, example, 0);
  const EvaluationResult plain = run(white, {collation.finish()}, 1);
  ASSERT_EQ(tiled.detections[0].found.boxes_px.size(), 1u);
  const BoxPx &a = tiled.detections[0].found.boxes_px[0], &b = plain.detections[0].found.boxes_px[0];
  EXPECT_EQ(std::tie(a.ymin, a.xmin, a.ymax, a.xmax), std::tie(b.ymin, b.xmin, b.ymax, b.xmax));
  EXPECT_EQ(tiled.value("DetectionBoxes_Precision/mAP"), plain.value("DetectionBoxes_Precision/mAP"));
}

TEST(TiledEvaluation, TheFileSaysHowPicturesWereLookedAtAndHasNoLosses) {
  const EvaluationResult tiled = run(white, {picture(30, 30, {{2, 3, 7, 9}})}, 1, in_tiles(0.25));
  const auto json = nlohmann::json::parse(metrics_json(tiled, 7));
  EXPECT_EQ(json.at("tiles"), nlohmann::json({{"tile_size", 20}, {"tile_overlap", 0.25}}));
  for (const MetricValue& metric : tiled.metrics)
    EXPECT_THAT(metric.name, ::testing::Not(HasSubstr("Loss"))) << metric.name;
  EXPECT_FALSE(nlohmann::json::parse(metrics_json(run(truth_itself, {batch_of_two()}, 2), 7)).contains("tiles"));
}

TEST(TiledEvaluation, DetectionsThatAreNotFiniteAreCountedAndNotMerged) {
  const auto broken = [](const Batch& batch) {
    Detections found = white(batch);
    found.count.fill_(2);
    found.scores.select(1, 1).fill_(std::nan(""));
    return found;
  };
  const Batch sheet = picture(20, 40, {{2, 3, 7, 9}});
  const EvaluationResult result = run(broken, {sheet}, 1, in_tiles(0));
  EXPECT_EQ(result.detections[0].found.boxes_px.size(), 2u) << "the one of each tile that is a number";
}

/// Finds an object in the middle of every picture.
std::vector<std::vector<Detection>> middle(const std::vector<at::Tensor>& pictures) {
  return {pictures.size(), {{.box = {0.25f, 0.25f, 0.75f, 0.75f}, .score = 0.9f, .class_id = 1}}};
}

TEST(FoundByAnother, WhatLooksInTheModelsPlaceSeesWholePicturesOrTheirTiles) {
  EvaluationOptions options;
  options.find = middle;
  Batch left_out = picture(20, 20, {});
  left_out.image_weights.zero_();
  const EvaluationResult whole = run(white, {picture(40, 60, {{10, 15, 30, 45}}), left_out}, 1, options);
  EXPECT_NEAR(whole.value("DetectionBoxes_Precision/mAP"), 1, 1e-12);
  EXPECT_EQ(whole.num_images, 1);
  for (const MetricValue& metric : whole.metrics)
    EXPECT_THAT(metric.name, ::testing::Not(HasSubstr("Loss"))) << metric.name;

  EvaluationOptions tiles = in_tiles(0);
  tiles.find = middle;
  EXPECT_EQ(run(white, {picture(40, 60, {})}, 1, tiles).detections[0].found.boxes_px.size(), 6u) << "one in each tile";

  options.find = [](const auto&) -> std::vector<std::vector<Detection>> { throw DataError("cannot be looked at"); };
  EXPECT_THAT([&] { run(white, {picture(40, 60, {})}, 1, options); },
              ThrowsMessage<DataError>(HasSubstr("image sheet: cannot be looked at")));
}

TEST(TiledEvaluation, APictureOfTooManyTilesIsNamed) {
  EvaluationOptions options = in_tiles(0);
  options.tiled->tiles.side_px = 1;
  EXPECT_THAT([&] { run(white, {picture(400, 400, {})}, 1, options); },
              ThrowsMessage<DataError>(AllOf(HasSubstr("image sheet"), HasSubstr("160000 tiles"))));
}

TEST(TiledEvaluation, ASourceOfOwnSizesGivesPicturesAsTheyAre) {
  const testing::TempDir folder;
  {
    data::RecordWriter writer(folder / "test.record");
    for (const int side : {12, 30, 17})
      writer.write(testing::picture_record(side, 16, std::to_string(side)).box(.1f, .2f, .5f, .6f, 1).bytes());
    writer.write(testing::picture_record(9, 9, "bad").strings("image/encoded", {"no picture"}).bytes());
    writer.close();
  }
  const auto reader = config::parse<proto::InputReader>(
      "tf_record_input_reader { input_path: '" + (folder / "test.record") + "' } shuffle: false decode_reduced: true",
      "test");
  const auto resizer = config::parse<proto::ImageResizer>("identity_resizer {}", "test");
  data::SourceOptions options;
  options.training = false;
  options.num_classes = 2;
  options.skip_bad = true;
  options.resizer = data::build_image_resizer(resizer.node());
  const auto source = data::make_source(reader.node(), options);
  EXPECT_EQ(source->num_examples(), 4);
  for (int round = 0; round < 2; ++round) {
    source->seek(0);
    for (const int64_t side : {12, 30, 17}) {
      const std::optional<Batch> batch = source->next();
      ASSERT_TRUE(batch);
      EXPECT_EQ(batch->images.sizes(), (std::vector<int64_t>{1, 3, side, 16}));
      EXPECT_TRUE(batch->true_shapes.equal(batch->original_sizes));
      EXPECT_NEAR(batch->boxes[0][0][3].item<float>(), .6, 1e-6);
    }
    const std::optional<Batch> bad = source->next();
    ASSERT_TRUE(bad);
    EXPECT_EQ(bad->image_weights.item<float>(), 0);
    Parrot model(white);
    ListSource list({*bad}, 0);
    EXPECT_EQ(evaluate(model, list, kCategories, in_tiles(0)).num_images, 0) << "it is not looked at";
    EXPECT_FALSE(source->next());
  }
  options.batch_size = 2;
  EXPECT_EQ(data::make_source(reader.node(), options)->next()->images.sizes(), (std::vector<int64_t>{2, 3, 30, 16}));
}

}  // namespace
}  // namespace osprey::eval
