#include "osprey/data/shapes.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "osprey/base/error.h"
#include "osprey/data/image_codec.h"

namespace osprey::data {
namespace {

std::vector<AnnotatedImage> images(uint64_t seed, int64_t count) {
  ShapesOptions options;
  options.num_images = count;
  options.seed = seed;
  const auto source = make_shapes(options);
  Problems problems;
  std::vector<AnnotatedImage> result(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) EXPECT_TRUE(source->read(i, result[static_cast<size_t>(i)], problems));
  return result;
}

TEST(Shapes, TheSameSeedGivesTheSamePicturesAndAnotherSeedOthers) {
  const auto first = images(1, 8), again = images(1, 12), other = images(2, 8);
  std::set<std::string> different;
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].encoded, again[i].encoded);
    EXPECT_EQ(first[i].source_id, again[i].source_id);
    ASSERT_EQ(first[i].objects.size(), again[i].objects.size());
    different.insert(first[i].encoded);
    different.insert(other[i].encoded);
  }
  EXPECT_EQ(different.size(), 16u);
}

TEST(Shapes, KeepsItsPromises) {
  std::set<std::string> classes;
  int64_t several = 0, cut = 0, overlapping = 0, small = 0, large = 0;
  for (const AnnotatedImage& image : images(3, 60)) {
    ASSERT_EQ(decode_image(image.encoded).sizes(), (std::vector<int64_t>{image.height, image.width, 3}));
    const auto side = static_cast<float>(image.height);
    ASSERT_FALSE(image.objects.empty());
    several += image.objects.size() > 1;
    for (size_t i = 0; i < image.objects.size(); ++i) {
      const Box& box = image.objects[i].box_px;
      classes.insert(image.objects[i].name);
      EXPECT_GE(std::min(box.ymin, box.xmin), 0);
      EXPECT_LE(std::max(box.ymax, box.xmax), side);
      EXPECT_GE(std::min(box.height(), box.width()), side / 16);
      EXPECT_LE(std::max(box.height(), box.width()), side / 2 + 2);
      EXPECT_GT(image.objects[i].area_px, 0.25f * box.area());
      EXPECT_LE(image.objects[i].area_px, box.area());
      cut += image.objects[i].truncated;
      small += box.width() < side / 8;
      large += box.width() > side / 3;
      for (size_t k = 0; k < i; ++k) {
        const Box& other = image.objects[k].box_px;
        overlapping += std::min(box.ymax, other.ymax) > std::max(box.ymin, other.ymin) &&
                       std::min(box.xmax, other.xmax) > std::max(box.xmin, other.xmin);
      }
    }
  }
  EXPECT_THAT(classes, ::testing::ElementsAre("circle", "rectangle", "triangle"));
  EXPECT_GT(several, 30);
  EXPECT_GT(cut, 5);
  EXPECT_GT(overlapping, 5);
  EXPECT_GT(small, 10);
  EXPECT_GT(large, 10);
}

TEST(Shapes, OptionsOutOfRangeAreRefused) {
  EXPECT_THROW(make_shapes({.num_images = 0}), ConfigError);
  EXPECT_THROW(make_shapes({.image_size = 8}), ConfigError);
  EXPECT_THROW(make_shapes({.max_objects = 0}), ConfigError);
}

}  // namespace
}  // namespace osprey::data
