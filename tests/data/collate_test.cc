#include "osprey/data/collate.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "osprey/config/parse.h"

namespace osprey::data {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::unique_ptr<ImageResizer> small_fixed_resizer() {
  const auto text = config::parse<proto::ImageResizer>("fixed_shape_resizer { height: 4 width: 6 }", "test");
  return build_image_resizer(text.node());
}

Example example(int boxes) {
  Example example;
  example.id = "x";
  example.image = at::full({1, 1, 3}, 7, at::kByte);  // a picture of one pixel
  example.original_height = example.original_width = 1;
  for (int i = 0; i < boxes; ++i) {
    example.boxes.push_back({0, 0, 1, static_cast<float>(i + 1) / static_cast<float>(boxes)});
    example.classes.push_back(i % 2);
    example.weights.push_back(0.5f);
  }
  return example;
}

BatchShape shape() {
  BatchShape shape;
  shape.image = {4, 6};
  shape.max_boxes = 3;
  shape.num_classes = 2;
  return shape;
}

TEST(Collate, NoBoxesExactlyMAndOneMore) {
  for (int boxes : {0, 3, 4}) {
    Batch batch = empty_batch(shape());
    EXPECT_EQ(put(batch, 0, example(boxes), 9, shape(), *small_fixed_resizer()), boxes == 4 ? 1 : 0);
    EXPECT_EQ(batch.valid.sum().item<int64_t>(), std::min(boxes, 3));
    EXPECT_TRUE(at::equal(batch.weights, batch.valid.to(at::kFloat) * 0.5));
    EXPECT_EQ(batch.example_keys[0].item<int64_t>(), 9);
    EXPECT_TRUE((batch.images == 7).all().item<bool>());
    EXPECT_TRUE(at::equal(batch.true_shapes, at::tensor({4, 6}).to(at::kLong).view({1, 2})));
  }
}

TEST(Collate, PicturesThatTheDeviceResizesStayAsTheyAreWhereTheyFit) {
  BatchShape later = shape();
  later.image = {5, 8};
  later.resize_later = true;
  later.batch_size = 2;
  Batch batch = empty_batch(later);
  Example fits = example(1), large = example(1);
  fits.image = at::arange(2 * 8 * 3).to(at::kByte).view({2, 8, 3});
  large.image = at::full({6, 8, 3}, 9, at::kByte);
  put(batch, 0, fits, 0, later, *small_fixed_resizer());
  put(batch, 1, large, 1, later, *small_fixed_resizer());
  EXPECT_TRUE(at::equal(batch.source_shapes, at::tensor({2, 8, 4, 6}, at::kLong).view({2, 2})));
  EXPECT_TRUE(at::equal(batch.true_shapes, at::tensor({4, 6, 4, 6}, at::kLong).view({2, 2})));
  EXPECT_TRUE(at::equal(batch.images[0].slice(1, 0, 2), fits.image.permute({2, 0, 1})));
  EXPECT_TRUE((batch.images[1].slice(1, 0, 4).slice(2, 0, 6) == 9).all().item<bool>());
  EXPECT_TRUE(at::equal(picture_shapes(batch), batch.source_shapes));
  EXPECT_TRUE(at::equal(batch.original_sizes[0], at::tensor({1, 1}, at::kLong))) << "that of the record";
}

TEST(Collate, EqualBoxesBecomeOneRowWithAllTheirClasses) {
  Example two = example(2);
  two.boxes[1] = two.boxes[0];
  BatchShape multi = shape();
  multi.multi_label = true;
  Batch batch = empty_batch(multi);
  EXPECT_EQ(put(batch, 0, two, 0, multi, *small_fixed_resizer()), 0);
  EXPECT_EQ(batch.valid.sum().item<int64_t>(), 1);
  EXPECT_TRUE(at::equal(batch.classes[0][0], at::tensor({1.f, 1.f})));
  EXPECT_EQ(batch.classes.sum().item<float>(), 2);
}

TEST(Collate, BoxesAreMergedThatFallOntoTheSamePlacesOfTheCanvas) {
  Example two = example(2);
  two.boxes = {{.10002f, .1f, .5f, .5f}, {.10009f, .1f, .5f, .5f}};
  EXPECT_THAT(merge_boxes(two).merged, ElementsAre(0, 0)) << "both fall onto the 1000th of 9999 places";
  two.boxes[1].ymin = .10012f;
  EXPECT_THAT(merge_boxes(two).merged, ElementsAre(0, 1));
  EXPECT_THAT(merge_boxes(two, {.5f, 1}).merged, ElementsAre(0, 0)) << "on a canvas twice as high both fall onto 500";
  EXPECT_THAT(merge_boxes(two, {10, 20}, {20, 20}).merged, ElementsAre(0, 0));
}

TEST(Collate, BoxesAreMergedOnTheCanvasOfTheNetworkWhoeverResizes) {
  BatchShape multi = shape();
  multi.multi_label = true;
  BatchShape later = multi;
  later.image = {40, 60};
  later.resize_later = true;
  Example two = example(2);
  two.boxes = {{.10002f, .1f, .5f, .5f}, {.10012f, .1f, .5f, .5f}};  // on a canvas of 40 x 60 one place
  for (const BatchShape& way : {multi, later}) {
    Batch batch = empty_batch(way);
    put(batch, 0, two, 0, way, *small_fixed_resizer());
    EXPECT_EQ(batch.valid.sum().item<int64_t>(), 2);
  }
}

TEST(Collate, RowsOfScoresAreClassesAndConfidencesMakeMultiplesOfThem) {
  Example two = example(2);
  two.multiclass_scores = at::tensor({.75f, .25f, 0.0f, .5f}).view({2, 2});
  two.confidences = {1, .5f};
  BatchShape scored = shape();
  scored.class_scores = scored.confidences = true;
  Batch batch = empty_batch(scored);
  put(batch, 0, two, 0, scored, *small_fixed_resizer());
  EXPECT_TRUE(batch.classes[0].narrow(0, 0, 2).equal(two.multiclass_scores));
  EXPECT_TRUE(batch.confidences[0].narrow(0, 0, 2).equal(at::tensor({.75f, .25f, 0.0f, .25f}).view({2, 2})));
  EXPECT_EQ(batch.classes.sum().item<float>(), 1.5f);
}

TEST(Collate, LabelsOfAWholePictureAreMarked) {
  Example labelled = example(1);
  labelled.image_classes = {1, -1, 7};
  Batch batch = empty_batch(shape());
  put(batch, 0, labelled, 0, shape(), *small_fixed_resizer());
  EXPECT_TRUE(batch.image_classes[0].equal(at::tensor({0, 1}).to(at::kBool)));
}

TEST(Collate, MergingWithKeypointsIsRefused) {
  Example with_keypoints = example(2);
  with_keypoints.keypoints = at::zeros({2, 1, 2});
  EXPECT_THAT([&] { merge_boxes(with_keypoints); },
              ThrowsMessage<c10::Error>(HasSubstr("Multi-label support is only for boxes.")));
}

// The original drops the box and keeps its weight, so that later weights slip to the wrong boxes; ours drops both.
TEST(Collate, ADroppedObjectTakesItsWeightAlong) {
  Example three = example(3);
  three.weights = {1, 2, 3};
  three.boxes[0].ymin = std::nanf("");
  three.classes[1] = -1;
  drop_unusable_objects(three);
  EXPECT_EQ(three.weights, (std::vector<float>{3}));
  EXPECT_EQ(three.boxes.size(), 1u);
}

}  // namespace
}  // namespace osprey::data
