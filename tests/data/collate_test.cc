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

std::shared_ptr<const ImageResizer> small_fixed_resizer() {
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

/// None of whose boxes are left out.
Batch batch_of(const std::vector<Example>& examples, BatchShape shape,
               std::shared_ptr<const ImageResizer> resizer = small_fixed_resizer()) {
  shape.batch_size = static_cast<int64_t>(examples.size());
  Collation collation(shape, std::move(resizer));
  for (size_t i = 0; i < examples.size(); ++i)
    EXPECT_EQ(collation.put(static_cast<int64_t>(i), examples[i], static_cast<int64_t>(i)), 0);
  return collation.finish();
}

TEST(Collate, NoBoxesExactlyMAndOneMore) {
  for (int boxes : {0, 3, 4}) {
    Collation collation(shape(), small_fixed_resizer());
    EXPECT_EQ(collation.put(0, example(boxes), 9), boxes == 4 ? 1 : 0);
    const Batch batch = collation.finish();
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
  Example fits = example(1), large = example(1);
  fits.image = at::arange(2 * 8 * 3).to(at::kByte).view({2, 8, 3});
  large.image = at::full({6, 8, 3}, 9, at::kByte);
  const Batch batch = batch_of({fits, large}, later);
  EXPECT_TRUE(at::equal(batch.source_shapes, at::tensor({2, 8, 4, 6}, at::kLong).view({2, 2})));
  EXPECT_TRUE(at::equal(batch.true_shapes, at::tensor({4, 6, 4, 6}, at::kLong).view({2, 2})));
  EXPECT_TRUE(at::equal(batch.images[0].slice(1, 0, 2), fits.image.permute({2, 0, 1})));
  EXPECT_TRUE((batch.images[1].slice(1, 0, 4).slice(2, 0, 6) == 9).all().item<bool>());
  EXPECT_TRUE(at::equal(picture_shapes(batch), batch.source_shapes));
  EXPECT_TRUE(at::equal(batch.original_sizes[0], at::tensor({1, 1}, at::kLong))) << "that of the record";
}

std::shared_ptr<const ImageResizer> resizer_of(const std::string& text) {
  return build_image_resizer(config::parse<proto::ImageResizer>(text, "test").node());
}

TEST(Collate, WithoutAStaticSizeTheCanvasIsThatOfTheLargestPicture) {
  BatchShape own = shape();
  own.image.reset();
  Example lying = example(1), standing = example(1);
  lying.image = at::full({10, 20, 3}, 5, at::kByte);
  standing.image = at::full({30, 12, 3}, 9, at::kByte);
  const auto keeping = resizer_of("keep_aspect_ratio_resizer { min_dimension: 5 max_dimension: 20 }");
  const Batch both = batch_of({lying, standing}, own, keeping);
  EXPECT_EQ(both.images.sizes(), (std::vector<int64_t>{2, 3, 12, 10}));
  EXPECT_TRUE(both.images.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(at::equal(both.true_shapes, at::tensor({5, 10, 12, 5}, at::kLong).view({2, 2})));
  EXPECT_TRUE((both.images[0].slice(1, 0, 5) == 5).all().item<bool>());
  EXPECT_EQ(both.images.sum().item<int64_t>(), 3 * (5 * 10 * 5 + 12 * 5 * 9)) << "the rest is zero";
  EXPECT_EQ(batch_of({lying}, own, keeping).images.sizes(), (std::vector<int64_t>{1, 3, 5, 10}));
  const Batch padded = batch_of({standing}, own, resizer_of("pad_to_multiple_resizer { multiple: 8 }"));
  EXPECT_EQ(padded.images.sizes(), (std::vector<int64_t>{1, 3, 32, 16}));
  EXPECT_TRUE(at::equal(padded.true_shapes, at::tensor({30, 12}, at::kLong).view({1, 2})));
  EXPECT_EQ(batch_of({standing}, own, resizer_of("identity_resizer {}")).images.data_ptr(), standing.image.data_ptr())
      << "a picture alone that stays as it is is not copied";
  own.float_images = true;
  EXPECT_TRUE(batch_of({standing}, own, resizer_of("identity_resizer {}"))
                  .images.equal(standing.image.permute({2, 0, 1}).unsqueeze(0).to(at::kFloat)));
}

TEST(Collate, ABatchOfNoPicturesHasTheUsualSize) {
  BatchShape own = shape();
  own.image.reset();
  own.batch_size = 2;
  const auto keeping = resizer_of("keep_aspect_ratio_resizer { min_dimension: 6 max_dimension: 20 }");
  const Batch none = Collation(own, keeping).finish();
  EXPECT_EQ(none.images.sizes(), (std::vector<int64_t>{2, 3, 6, 8}));
  EXPECT_EQ(none.image_weights.sum().item<float>(), 0);
}

TEST(Collate, EqualBoxesBecomeOneRowWithAllTheirClasses) {
  Example two = example(2);
  two.boxes[1] = two.boxes[0];
  BatchShape multi = shape();
  multi.multi_label = true;
  const Batch batch = batch_of({two}, multi);
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
    EXPECT_EQ(batch_of({two}, way).valid.sum().item<int64_t>(), 2);
  }
}

TEST(Collate, RowsOfScoresAreClassesAndConfidencesMakeMultiplesOfThem) {
  Example two = example(2);
  two.multiclass_scores = at::tensor({.75f, .25f, 0.0f, .5f}).view({2, 2});
  two.confidences = {1, .5f};
  BatchShape scored = shape();
  scored.class_scores = scored.confidences = true;
  const Batch batch = batch_of({two}, scored);
  EXPECT_TRUE(batch.classes[0].narrow(0, 0, 2).equal(two.multiclass_scores));
  EXPECT_TRUE(batch.confidences[0].narrow(0, 0, 2).equal(at::tensor({.75f, .25f, 0.0f, .25f}).view({2, 2})));
  EXPECT_EQ(batch.classes.sum().item<float>(), 1.5f);
}

TEST(Collate, LabelsOfAWholePictureAreMarked) {
  Example labelled = example(1);
  labelled.image_classes = {1, -1, 7};
  const Batch batch = batch_of({labelled}, shape());
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
