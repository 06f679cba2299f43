#include "osprey/data/combination.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "augmentation_support.h"
#include "osprey/base/error.h"
#include "osprey/data/example_ops.h"

namespace osprey::data {
namespace {
using namespace ::osprey::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// A picture in which no two pixels are alike, `number` in its last channel, with one box of class `number`.
Example numbered(int64_t height, int64_t width, int64_t number, Box box = {0, 0, 1, 1}) {
  Example example;
  example.id = std::to_string(number);
  example.image = at::empty({height, width, 3}, at::kByte);
  example.image.select(2, 0).copy_(at::arange(height).unsqueeze(1).expand({height, width}));
  example.image.select(2, 1).copy_(at::arange(width).unsqueeze(0).expand({height, width}));
  example.image.select(2, 2).fill_(number);
  example.boxes = {box};
  example.classes = {number};
  example.weights = {1};
  return example;
}

OtherExamples one_by_one(std::vector<Example> examples) {
  return [examples = std::move(examples), next = size_t{0}](RandomDraws&) mutable { return examples.at(next++); };
}

/// Combines with these others and draws; all have to be used.
void combine(const std::string& text, Example& example, std::vector<Example> others,
             const std::vector<double>& script) {
  ScriptedDraws draws(script);
  const auto step = augmentation(text);
  dynamic_cast<const Combination&>(*step).apply(example, 0, one_by_one(std::move(others)), draws);
  EXPECT_TRUE(draws.used_up()) << text;
}

at::Tensor part(const Example& of, int64_t top, int64_t left, int64_t height, int64_t width) {
  return of.image.narrow(0, top, height).narrow(1, left, width).to(at::kFloat);
}

Augmenter steps_of(const std::string& text) {
  std::vector<std::unique_ptr<Augmentation>> steps;
  const auto train = config::parse<proto::TrainConfig>(text, "test");
  for (const auto& option : train.message->data_augmentation_options())
    steps.push_back(augmentation(option.ShortDebugString()));
  return Augmenter(std::move(steps));
}

TEST(Mosaic, EachPictureFillsItsQuarterFromThePointOutwards) {
  const Example a = numbered(8, 12, 1), b = numbered(8, 12, 2), c = numbered(8, 12, 3), d = numbered(8, 12, 4);
  Example example = a;
  // The point at row 8 * 0.75 and column 12 * 0.25; all as large as they fit.
  combine("random_mosaic { probability: 1 }", example, {b, c, d}, {0.5, 0.75, 0.25, 1, 1, 1, 1});
  ASSERT_EQ(example.image.sizes(), (std::vector<int64_t>{8, 12, 3}));
  EXPECT_TRUE(at::equal(part(example, 0, 0, 6, 3), part(a, 2, 9, 6, 3))) << "its lower right corner at the point";
  EXPECT_TRUE(at::equal(part(example, 0, 3, 6, 9), part(b, 2, 0, 6, 9)));
  EXPECT_TRUE(at::equal(part(example, 6, 0, 2, 3), part(c, 0, 9, 2, 3)));
  EXPECT_TRUE(at::equal(part(example, 6, 3, 2, 9), part(d, 0, 0, 2, 9)));
  // Of a 6 * 3 / 96 = 0.19 is seen, of b 0.56, of c 0.06, of d 0.19.
  EXPECT_EQ(example.classes, (std::vector<int64_t>{2}));
  expect_boxes(example.boxes, {{0, 0.25, 0.75, 1}}, "the one that is seen by 0.3");
  EXPECT_EQ(example.id, "1");
}

TEST(Mosaic, SmallerPicturesLeaveThePadColourAndTheirBoxesWhole) {
  const Box box{0.5f, 0, 1, 0.5f};
  Example example = numbered(8, 8, 1, box);
  // The other ones fit at 0.5, 2 and 1, of which each is drawn at a half: 4 x 2, 4 x 4 and 1 x 4 pixels.
  combine("random_mosaic { probability: 1 pad_color: [7, 7, 7] }", example,
          {numbered(16, 8, 2, box), numbered(4, 4, 3, box), numbered(2, 8, 4, box)},
          {0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5});
  EXPECT_EQ(example.classes, (std::vector<int64_t>{1, 2, 3, 4}));
  expect_boxes(example.boxes,
               {{0.25, 0, 0.5, 0.25}, {0.25, 0.5, 0.5, 0.625}, {0.75, 0, 1, 0.25}, {0.5625, 0.5, 0.625, 0.75}}, "all");
  at::Tensor numbers = at::full({8, 8}, 7.0f);
  numbers.narrow(0, 0, 4).narrow(1, 0, 4).fill_(1);
  numbers.narrow(0, 0, 4).narrow(1, 4, 2).fill_(2);
  numbers.narrow(0, 4, 4).narrow(1, 0, 4).fill_(3);
  numbers.narrow(0, 4, 1).narrow(1, 4, 4).fill_(4);
  EXPECT_TRUE(at::equal(example.image.select(2, 2), numbers));
}

/// Notes what was drawn.
class NotedDraws final : public RandomDraws {
 public:
  explicit NotedDraws(uint64_t key) : draws_({0, 0, key, 0}) {}
  float uniform(float low, float high) override { return noted.emplace_back(draws_.uniform(low, high)); }
  int64_t integer(int64_t low, int64_t high) override { return draws_.integer(low, high); }
  std::vector<float> noted;

 private:
  KeyedDraws draws_;
};

TEST(Mosaic, BoxesMasksAndKeypointsAreWhereAPlainReferencePutsThem) {
  const auto step = augmentation("random_mosaic { probability: 1 min_center: 0.1 max_center: 0.9 max_scale: 2 }");
  int64_t seen = 0;
  for (uint64_t key = 0; key < 60; ++key) {
    KeyedDraws made({1, 0, key, 0});
    std::vector<Example> pictures;
    for (int64_t p = 0; p < 4; ++p) {
      const int64_t height = made.integer(40, 120), width = made.integer(40, 120);
      Example picture = numbered(height, width, p);
      picture.boxes.clear();
      picture.masks = at::zeros({5, height, width});
      picture.keypoints = at::empty({5, 2, 2});
      for (int64_t i = 0; i < 5; ++i) {
        const int64_t top = made.integer(0, height - 20), left = made.integer(0, width - 20);
        const int64_t bottom = made.integer(top + 10, height), right = made.integer(left + 10, width);
        picture.masks[i].slice(0, top, bottom).slice(1, left, right).fill_(1);
        const auto row = [&](int64_t y) { return static_cast<float>(y) / static_cast<float>(height); };
        const auto column = [&](int64_t x) { return static_cast<float>(x) / static_cast<float>(width); };
        picture.boxes.push_back({row(top), column(left), row(bottom), column(right)});
        picture.keypoints[i].copy_(at::tensor({row(top), column(left), row(bottom), column(right)}).view({2, 2}));
      }
      picture.classes = {10 * p, 10 * p + 1, 10 * p + 2, 10 * p + 3, 10 * p + 4};
      picture.weights.assign(5, 1);
      pictures.push_back(picture);
    }
    const double height = static_cast<double>(pictures[0].image.size(0)),
                 width = static_cast<double>(pictures[0].image.size(1));
    NotedDraws draws(key);
    Example example = pictures[0];
    dynamic_cast<const Combination&>(*step).apply(example, 0, one_by_one({pictures[1], pictures[2], pictures[3]}),
                                                  draws);
    ASSERT_EQ(draws.noted.size(), 7u);
    const double y = draws.noted[1] * height, x = draws.noted[2] * width;
    std::vector<int64_t> classes = example.classes;
    for (int64_t p = 0; p < 4; ++p) {
      const Example& picture = pictures[static_cast<size_t>(p)];
      const double rows = static_cast<double>(picture.image.size(0)),
                   columns = static_cast<double>(picture.image.size(1));
      const double factor = draws.noted[static_cast<size_t>(3 + p)] * std::min(height / rows, width / columns);
      const double low_y = p < 2 ? 0 : y, high_y = p < 2 ? y : height, low_x = p % 2 == 0 ? 0 : x,
                   high_x = p % 2 == 0 ? x : width;
      for (int64_t i = 0; i < 5; ++i) {
        const Box& box = picture.boxes[static_cast<size_t>(i)];
        const auto down = [&](double at) { return y + (at - (p < 2 ? 1 : 0)) * rows * factor; };
        const auto across = [&](double at) { return x + (at - (p % 2 == 0 ? 1 : 0)) * columns * factor; };
        const double whole = (down(box.ymax) - down(box.ymin)) * (across(box.xmax) - across(box.xmin));
        const double top = std::clamp(down(box.ymin), low_y, high_y),
                     bottom = std::clamp(down(box.ymax), low_y, high_y),
                     left = std::clamp(across(box.xmin), low_x, high_x),
                     right = std::clamp(across(box.xmax), low_x, high_x);
        const double share = (bottom - top) * (right - left) / whole;
        const auto found = std::find(classes.begin(), classes.end(), 10 * p + i);
        if (std::abs(share - 0.3) > 0.15) {
          EXPECT_EQ(found != classes.end(), share > 0.3) << key << ": " << p << ", " << i;
        }
        if (found == classes.end()) continue;
        ++seen;
        const int64_t at = found - classes.begin();
        const Box& now = example.boxes[static_cast<size_t>(at)];
        const double pixel = 1.5 + factor;  // of the canvas and of the picture, that parts begin and end with
        EXPECT_NEAR(now.ymin * height, top, pixel);
        EXPECT_NEAR(now.ymax * height, bottom, pixel);
        EXPECT_NEAR(now.xmin * width, left, pixel);
        EXPECT_NEAR(now.xmax * width, right, pixel);
        const at::Tensor mask = example.masks[at];
        const at::Tensor mask_rows = mask.amax(1).nonzero(), mask_columns = mask.amax(0).nonzero();
        EXPECT_NEAR(static_cast<double>(mask_rows[0].item<int64_t>()), now.ymin * height, pixel);
        EXPECT_NEAR(static_cast<double>(mask_rows[-1].item<int64_t>() + 1), now.ymax * height, pixel);
        EXPECT_NEAR(static_cast<double>(mask_columns[0].item<int64_t>()), now.xmin * width, pixel);
        EXPECT_NEAR(static_cast<double>(mask_columns[-1].item<int64_t>() + 1), now.xmax * width, pixel);
        const at::Tensor points = example.keypoints[at];
        if (points.isnan().any().item<bool>()) continue;  // a corner out of sight
        EXPECT_NEAR(points[0][0].item<float>(), now.ymin, 1e-5);
        EXPECT_NEAR(points[1][1].item<float>(), now.xmax, 1e-5);
      }
    }
  }
  EXPECT_GT(seen, 300);
}

TEST(Mosaic, PicturesThatAreCutOffLeaveNoPad) {
  // Each picture is at least twice as large as the largest quarter.
  const auto step =
      augmentation("random_mosaic { probability: 1 min_scale: 1.5 max_scale: 1.5 pad_color: [77, 77, 77] }");
  for (uint64_t key = 0; key < 60; ++key) {
    Example example = numbered(30, 30, 1);
    KeyedDraws draws({0, 0, key, 0});
    dynamic_cast<const Combination&>(*step).apply(
        example, 0, one_by_one({numbered(29, 29, 2), numbered(7, 7, 3), numbered(100, 100, 4)}), draws);
    EXPECT_FALSE(example.image.select(2, 2).eq(77).any().item<bool>()) << key;
  }
}

TEST(Mosaic, AQuarterWithoutPixelsShowsNothing) {
  Example example = numbered(6, 6, 1);
  example.masks = at::ones({1, 6, 6});
  Example other = numbered(3, 5, 2);
  other.masks = at::ones({1, 3, 5});
  combine("random_mosaic { probability: 1 min_center: 0 max_center: 1 }", example, {other, other, other},
          {0.5, 0, 1, 1, 1, 1, 1});
  EXPECT_EQ(example.classes, (std::vector<int64_t>{2})) << "the lower left one has it all";
  EXPECT_EQ(example.masks.sizes(), (std::vector<int64_t>{1, 6, 6}));
  EXPECT_EQ(example.masks.sum().item<float>(), 24) << "fits at 1.2: 4 rows of 6";
}

TEST(Mosaic, PicturesWithoutBoxesOfOnePixelAndInGreyPass) {
  for (const auto& [height, width] : {std::pair{1, 1}, {1, 50}, {50, 1}, {17, 23}}) {
    Example example;
    example.image = at::full({height, width, 3}, 9, at::kByte);
    Example point = example, gray = numbered(20, 20, 3);
    point.image = at::full({1, 1, 3}, 9, at::kByte);
    apply("rgb_to_gray {}", {}, gray);
    for (uint64_t key = 0; key < 30; ++key) {
      Example mixed = example;
      KeyedDraws draws({0, 0, key, 0});
      for (const char* text : {"random_mosaic { probability: 1 min_scale: 1e-30 max_scale: 1e30 }",
                               "random_mosaic { probability: 1 }", "random_mix_up { probability: 1 }"}) {
        const auto step = augmentation(text);
        dynamic_cast<const Combination&>(*step).apply(mixed, 0, one_by_one({point, gray, point}), draws);
        EXPECT_EQ(mixed.image.sizes(), (std::vector<int64_t>{height, width, 3})) << text;
        EXPECT_EQ(mixed.weights.size(), mixed.boxes.size());
      }
    }
  }
}

TEST(MixUp, PixelsAndWeightsHaveTheShareOfTheirPicture) {
  Example example = numbered(4, 6, 100), other = numbered(4, 6, 200, {0, 0, 0.5f, 0.5f});
  example.weights = {2};
  other.is_crowd = {1};
  // alpha 1, draws 0.5 and 0: 0.5 + 0.5 / sqrt(1 + 1 / (2 - 1)) = 0.8536.
  combine("random_mix_up { probability: 1 alpha: 1 }", example, {other}, {0.5, 0.5, 0});
  EXPECT_TRUE(at::allclose(example.image.select(2, 2), at::full({4, 6}, 0.853553f * 100 + 0.146447f * 200)));
  EXPECT_EQ(example.classes, (std::vector<int64_t>{100, 200}));
  EXPECT_NEAR(example.weights[0], 2 * 0.853553f, 1e-6);
  EXPECT_NEAR(example.weights[1], 0.146447f, 1e-6);
  EXPECT_EQ(example.is_crowd, (std::vector<uint8_t>{0, 1}));
  expect_boxes(example.boxes, {{0, 0, 1, 1}, {0, 0, 0.5, 0.5}}, "both");
}

TEST(MixUp, TheOtherKeepsItsAspectRatioAndLiesAnywhere) {
  Example example = numbered(20, 50, 0, {0, 0, 0, 0}), other = numbered(10, 10, 200, {0, 0, 0.5f, 1});
  other.keypoints = at::full({1, 1, 2}, 0.5f);
  example.keypoints = at::zeros({1, 1, 2});
  // 20 x 20 pixels from column 25 on; beside them its mean colour.
  combine("random_mix_up { probability: 1 alpha: 1 }", example, {other}, {0.5, 0.5, 0, 25});
  expect_boxes(example.boxes, {{0, 0, 0, 0}, {0, 0.5, 0.5, 0.9}}, "both");
  EXPECT_TRUE(at::allclose(example.keypoints[1], at::tensor({0.5f, 0.7f})));
  EXPECT_TRUE(at::allclose(example.image.select(2, 2), at::full({20, 50}, 0.146447f * 200)));
  const at::Tensor columns = (example.image.select(2, 1) - 0.853553f * at::arange(50.0f)) / 0.146447f;
  EXPECT_NEAR(columns[5][25].item<float>(), 0, 1e-3);
  EXPECT_NEAR(columns[5][43].item<float>(), 9, 1e-3);
  const float mean = columns.slice(1, 25, 45).mean().item<float>();
  EXPECT_NEAR(columns[5][0].item<float>(), mean, 1e-3);
  EXPECT_NEAR(columns[19][49].item<float>(), mean, 1e-3);
}

TEST(MixUp, RatiosAreOfTheBetaDistribution) {
  constexpr int kDraws = 40000;
  for (const float alpha : {0.4f, 1.0f, 1.5f, 32.0f}) {
    const auto step = augmentation(fmt::format("random_mix_up {{ probability: 1 alpha: {} }}", alpha));
    double sum = 0, squares = 0;
    int below = 0;
    KeyedDraws draws({3, 0, 0, 0});
    for (int i = 0; i < kDraws; ++i) {
      Example white, black;
      white.image = at::ones({1, 1, 3});
      black.image = at::zeros({1, 1, 3});
      dynamic_cast<const Combination&>(*step).apply(white, 0, one_by_one({black}), draws);
      const double ratio = white.image.const_data_ptr<float>()[0];
      ASSERT_TRUE(ratio >= 0 && ratio <= 1);
      sum += ratio;
      squares += (ratio - 0.5) * (ratio - 0.5);
      below += ratio < 0.25;
    }
    const double variance = 1 / (4 * (2 * alpha + 1.0));
    EXPECT_NEAR(sum / kDraws, 0.5, 5 * std::sqrt(variance / kDraws)) << alpha << ": five standard errors";
    EXPECT_NEAR(squares / kDraws, variance, 0.03 * variance) << alpha;
    // With 1.5 it is Wigner's semicircle: 1/2 + (t sqrt(1 - t^2) + asin t) / pi at t = 2 * 0.25 - 1.
    const double t = -0.5, semicircle = 0.5 + (t * std::sqrt(1 - t * t) + std::asin(t)) / std::numbers::pi;
    if (alpha == 1.5f) {
      EXPECT_NEAR(below / double{kDraws}, semicircle, 0.01);
    }
    if (alpha == 1.0f) {
      EXPECT_NEAR(below / double{kDraws}, 0.25, 0.01);
    }
  }
}

TEST(Combinations, OthersHaveHadTheStepsBeforeAndTheResultHasThoseAfter) {
  for (const std::string step : {"random_mosaic { probability: 1 }", "random_mix_up { probability: 1 }"}) {
    const auto combined = [&](const std::string& before, const std::string& after, bool mirrored) {
      std::vector<Example> examples{numbered(9, 7, 1), numbered(11, 5, 2), numbered(6, 8, 3)};
      for (Example& example : examples)
        if (mirrored) flip_horizontal(example);
      Example example = examples[0];
      steps_of(fmt::format("data_augmentation_options {{ random_horizontal_flip {{ probability: {} }} }}"
                           "data_augmentation_options {{ {} }}"
                           "data_augmentation_options {{ random_horizontal_flip {{ probability: {} }} }}",
                           before, step, after))
          .apply(example, {1, 2, 3, 0}, [&](RandomDraws& draws) { return examples[draws.integer(0, 3)]; });
      return example;
    };
    const Example plain = combined("0", "0", false), mirrored = combined("0", "0", true),
                  before = combined("1", "0", false), after = combined("0", "1", false);
    EXPECT_TRUE(at::equal(before.image, mirrored.image)) << step;
    EXPECT_EQ(before.boxes, mirrored.boxes);
    EXPECT_FALSE(at::equal(before.image, plain.image));
    EXPECT_TRUE(at::equal(after.image, plain.image.flip(1)));
  }
}

TEST(Combinations, EachPictureHasDrawsOfItsOwn) {
  const Augmenter steps = steps_of(
      "data_augmentation_options { random_horizontal_flip {} } data_augmentation_options { random_mix_up { "
      "probability: 1 } }");
  int alike = 0;
  for (uint64_t key = 0; key < 200; ++key) {
    Example example;
    example.image = at::zeros({2, 2, 3}, at::kByte);
    example.image.select(1, 1).fill_(255);
    steps.apply(example, {1, 2, key, 0});
    const float least = example.image.min().item<float>();
    alike += least < 1e-3f;
  }
  EXPECT_NEAR(alike, 100, 35) << "both mirrored or none, in half of all cases (five standard deviations)";
}

TEST(Combinations, TheOthersOfASecondStepAreMadeOfSeveralThemselves) {
  const Augmenter steps = steps_of(
      "data_augmentation_options { random_mosaic { probability: 1 } } data_augmentation_options { "
      "random_mix_up { probability: 1 } }");
  EXPECT_EQ(steps.num_pictures(), 8);
  int asked = 0;
  Example example = numbered(8, 8, 0);
  steps.apply(example, {1, 2, 3, 0}, [&](RandomDraws&) { return numbered(8, 8, ++asked); });
  EXPECT_EQ(asked, 7);
}

TEST(Combinations, MoreThanSixtyFourPicturesInOneAreRefused) {
  const auto mosaics = [](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += "data_augmentation_options { random_mosaic {} }\n";
    const auto train = config::parse<proto::TrainConfig>(text, "test");
    return build_augmenter(train.node())->num_pictures();
  };
  EXPECT_EQ(mosaics(3), 64);
  EXPECT_THAT([&] { mosaics(4); },
              ThrowsMessage<ConfigError>(HasSubstr(
                  "test:4:29: data_augmentation_options[3].random_mosaic: makes one picture of 256 with the steps")));
}

TEST(Combinations, EndWithTheirLastEpochAndComeAsOftenAsTheyShould) {
  const Augmenter steps = steps_of(
      "data_augmentation_options { random_mix_up { num_epochs: 2 } } data_augmentation_options { "
      "random_mosaic { num_epochs: 1 probability: 0 } }");
  std::array<int, 4> mixed{};
  for (uint64_t epoch = 0; epoch < 4; ++epoch)
    for (uint64_t key = 0; key < 100; ++key) {
      Example example = numbered(2, 2, 1);
      steps.apply(example, {1, epoch, key, 0});
      mixed[epoch] += static_cast<int>(example.boxes.size()) - 1;
    }
  EXPECT_NEAR(mixed[0], 50, 25);
  EXPECT_NEAR(mixed[1], 50, 25);
  EXPECT_EQ(mixed[2] + mixed[3], 0);
}

void expect_named(const std::string& step, const std::string& field) {
  EXPECT_THAT([&] { augmentation(step); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("test:1:"), HasSubstr(fmt::format(".{}: must", field)))))
      << step;
}

TEST(Combinations, ValuesOutOfRangeAreNamed) {
  for (const auto& [step, field] : {std::pair{"random_mosaic { probability: 1.1 }", "probability"},
                                    {"random_mosaic { probability: nan }", "probability"},
                                    {"random_mosaic { min_center: -0.1 }", "min_center"},
                                    {"random_mosaic { min_center: nan }", "min_center"},
                                    {"random_mosaic { min_center: 0.8 }", "max_center"},
                                    {"random_mosaic { max_center: 1.1 }", "max_center"},
                                    {"random_mosaic { min_scale: 0 }", "min_scale"},
                                    {"random_mosaic { min_scale: 2 }", "max_scale"},
                                    {"random_mosaic { max_scale: inf }", "max_scale"},
                                    {"random_mosaic { overlap_thresh: -1 }", "overlap_thresh"},
                                    {"random_mosaic { pad_color: 3 }", "pad_color"},
                                    {"random_mix_up { probability: -1 }", "probability"},
                                    {"random_mix_up { alpha: 0 }", "alpha"},
                                    {"random_mix_up { alpha: nan }", "alpha"},
                                    {"random_mix_up { alpha: inf }", "alpha"}})
    expect_named(step, field);
}

}  // namespace
}  // namespace osprey::data
