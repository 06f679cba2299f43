#include "osprey/data/example_decoder.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "osprey/base/error.h"
#include "osprey/config/label_map.h"
#include "osprey/config/parse.h"
#include "osprey/data/decoder_builder.h"
#include "osprey/data/image_codec.h"
#include "osprey/data/image_resizer.h"
#include "support/example_record.h"
#include "support/pictures.h"

namespace osprey::data {
namespace {
using namespace ::osprey::testing;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;
using Problem = ReadReport::Problem;

std::shared_ptr<const config::LabelMap> pets() {
  return std::make_shared<config::LabelMap>(config::parse_label_map(
      "item { id: 1 name: '/m/1' display_name: 'cat' } item { id: 2 name: 'dog' } item { id: 5 name: 'bird' }",
      "pets"));
}

struct Read {
  ReadReport report;
  Example example;
};

std::unique_ptr<Read> read(const ExampleRecord& record, const std::string& reader = "",
                           std::shared_ptr<const config::LabelMap> map = pets(), int64_t num_classes = 0) {
  const auto parsed = config::parse<proto::InputReader>(reader);
  auto result = std::make_unique<Read>();
  const auto decoder = build_example_decoder(parsed.node(), num_classes, map);
  result->example = decoder->decode(record.bytes(), {"train.record", 3, 99}, result->report);
  return result;
}

template <class Error>
auto fails_with(const std::string& words) {
  return ThrowsMessage<Error>(AllOf(HasSubstr("train.record: record 3 (byte 99): source id '17'"), HasSubstr(words)));
}

TEST(ExampleDecoder, ReadsEveryKeyOfAnObject) {
  auto record = picture_record(10, 20).box(.1f, .2f, .3f, .4f, 1).box(.5f, .6f, .7f, .8f, 5);
  record.strings("image/filename", {"a.jpg"}).floats("image/object/area", {4, 5}).ints("image/object/is_crowd", {0, 1});
  record.ints("image/object/difficult", {1, 0})
      .ints("image/object/group_of", {0, 1})
      .floats("image/object/weight", {.5f, 2});
  const auto result = read(record);
  const Example& example = result->example;
  EXPECT_EQ(example.id, "17");
  EXPECT_EQ(example.file_name, "a.jpg");
  EXPECT_TRUE(example.image.equal(gradient_image(10, 20)));
  EXPECT_EQ(example.original_height, 10);
  EXPECT_EQ(example.original_width, 20);
  EXPECT_EQ(example.boxes, (std::vector<Box>{{.1f, .2f, .3f, .4f}, {.5f, .6f, .7f, .8f}}));
  EXPECT_THAT(example.classes, ElementsAre(0, 4));
  EXPECT_THAT(example.weights, ElementsAre(.5f, 2));
  EXPECT_THAT(example.area, ElementsAre(4, 5));
  EXPECT_THAT(example.is_crowd, ElementsAre(0, 1));
  EXPECT_THAT(example.difficult, ElementsAre(1, 0));
  EXPECT_THAT(example.group_of, ElementsAre(0, 1));
  EXPECT_THAT(result->report.lines(), IsEmpty());
}

TEST(ExampleDecoder, MissingKeysTakeTheirDefaults) {
  const auto result = read(picture_record(4, 4));
  EXPECT_THAT(result->example.boxes, IsEmpty());
  EXPECT_THAT(result->example.classes, IsEmpty());
  const auto one = read(picture_record(4, 4, "").box(0, 0, 1, 1, 2));
  EXPECT_EQ(one->example.id, "");
  EXPECT_THAT(one->example.weights, ElementsAre(1));
  EXPECT_THAT(one->example.is_crowd, IsEmpty());
  EXPECT_FALSE(one->example.masks.defined());
  EXPECT_FALSE(one->example.keypoints.defined());
}

TEST(ExampleDecoder, ClassTextDecidesAndFallsBackOnTheLabel) {
  auto record = picture_record(4, 4).box(0, 0, 1, 1, 2).box(0, 0, 1, .5f, 2).box(0, 0, .5f, 1, 5);
  record.strings("image/object/class/text", {"cat", "", "parrot"});
  const auto result = read(record);
  EXPECT_THAT(result->example.classes, ElementsAre(0, 1, 4));
  EXPECT_EQ(result->report.count(Problem::kTextDisagrees), 2);  // cat against 2; parrot is not in the map
  record.erase("image/object/class/label").strings("image/object/class/text", {"dog", "/m/1", "bird"});
  EXPECT_THAT(read(record)->example.classes, ElementsAre(1, 0, 4));
}

TEST(ExampleDecoder, TheClassOfAPictureIsNeverGuessed) {
  const auto classes = [](ExampleRecord record) { return read(record)->example.image_classes; };
  EXPECT_THAT(classes(picture_record(4, 4)), IsEmpty()) << "no label, no class";
  EXPECT_THAT(classes(picture_record(4, 4).ints("image/class/label", {2})), ElementsAre(1)) << "labels begin at 1";
  EXPECT_THAT(classes(picture_record(4, 4).ints("image/class/label", {-1, 0, 3})), ElementsAre(-1, -1, -1));
  EXPECT_THAT(classes(picture_record(4, 4).strings("image/class/text", {"dog"})), ElementsAre(1));
  EXPECT_THAT(classes(picture_record(4, 4).strings("image/class/text", {"fox"})), ElementsAre(-1));
  EXPECT_THAT(classes(picture_record(4, 4).strings("image/class/text", {""}).ints("image/class/label", {5})),
              ElementsAre(-1))
      << "with a label map the text decides";

  // Without one nobody knows the class, but the confidences belong to something.
  auto record = picture_record(4, 4).strings("image/class/text", {"dog", "cat"});
  record.floats("image/class/confidence", {1, 0.5f});
  const auto result = read(record, "", nullptr);
  EXPECT_THAT(result->example.image_classes, ElementsAre(-1, -1));
  EXPECT_THAT(result->example.image_confidences, ElementsAre(1, 0.5f));
}

TEST(ExampleDecoder, TheContentSaysTheFormatOfAPicture) {
  const at::Tensor expected = read(picture_record(6, 5))->example.image;
  for (const char* format : {"jpeg", "png", "", "nonsense"})
    EXPECT_TRUE(read(picture_record(6, 5).strings("image/format", {format}))->example.image.equal(expected)) << format;
}

TEST(ExampleDecoder, DisplayNamesAreLookedUpFirstWhereAskedFor) {
  const auto map = std::make_shared<config::LabelMap>(config::parse_label_map(
      "item { id: 1 name: 'a' display_name: 'b' } item { id: 2 name: 'b' display_name: 'c' }", "map"));
  auto record = picture_record(4, 4).box(0, 0, 1, 1);
  record.strings("image/object/class/text", {"b"});
  EXPECT_THAT(read(record, "", map)->example.classes, ElementsAre(1));
  EXPECT_THAT(read(record, "use_display_name: true", map)->example.classes, ElementsAre(0));
}

TEST(ExampleDecoder, AClassOutsideTheLabelMapIsNamedWithItsRecordAndEndsWithUsageCode) {
  for (int64_t label : {-1, 3, 6}) {
    EXPECT_THAT([&] { read(picture_record(4, 4).box(0, 0, 1, 1, 2).box(0, 0, 1, 1, label)); },
                fails_with<ConfigError>("image/object/class/label: box 1 has class id " + std::to_string(label)));
  }
  auto zero = picture_record(4, 4).box(0, 0, 1, 1);
  zero.ints("image/object/class/label", {0});
  EXPECT_THAT([&] { read(zero); }, fails_with<ConfigError>("ids begin at 1"));
  EXPECT_THAT([&] { read(picture_record(4, 4).box(0, 0, 1, 1, 5), "", pets(), 4); },
              fails_with<ConfigError>("ids 1 to 5 (3)           4              class id 5"));
  auto text = picture_record(4, 4).box(0, 0, 1, 1);
  text.strings("image/object/class/text", {"cow"});
  EXPECT_THAT([&] { read(text); }, fails_with<ConfigError>("'cow'"));
  EXPECT_THAT([&] { read(text, "", nullptr, 3); }, fails_with<ConfigError>("label_map_path"));
  EXPECT_THAT([&] { read(picture_record(4, 4).box(0, 0, 1, 1)); },
              fails_with<BadRecord>("image/object/class/label: is missing"));
  EXPECT_THAT(read(picture_record(4, 4).box(0, 0, 1, 1, 3), "", nullptr, 3)->example.classes, ElementsAre(2));
}

TEST(ExampleDecoder, InvalidBoxesFollowThePolicyAndAreCounted) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  // 20 x 10 pixels: one pixel is 0.05 wide and 0.1 high.
  auto record = picture_record(10, 20).box(0, 0, .5f, .5f, 1).box(0, 0, nan, 1, 1).box(.6f, 0, .5f, 1, 1);
  record.box(.5f, .5f, .5f, 1, 1).box(-.3f, .1f, .4f, 1.2f, 2).box(1.2f, .1f, 1.4f, 1.2f, 1).box(-.09f, 0, 1, 1.04f, 5);
  record.floats("image/object/area", {0, 1, 2, 3, 4, 5, 6});
  const auto clipped = read(record);
  EXPECT_EQ(clipped->example.boxes, (std::vector<Box>{{0, 0, .5f, .5f}, {0, .1f, .4f, 1}, {0, 0, 1, 1}}));
  EXPECT_THAT(clipped->example.classes, ElementsAre(0, 1, 4));
  EXPECT_THAT(clipped->example.area, ElementsAre(0, 4, 6));
  EXPECT_EQ(clipped->report.count(Problem::kClippedBox), 1);
  EXPECT_EQ(clipped->report.count(Problem::kDroppedBox), 4);
  EXPECT_THAT(
      clipped->report.lines(),
      ElementsAre(
          HasSubstr(
              "1 box(es) clipped to the image: train.record: record 3 (byte 99): source id '17': box 4: leaves the "
              "image: ymin -0.3 xmin 0.1 ymax 0.4 xmax 1.2"),
          AllOf(HasSubstr("4 box(es) left out"), HasSubstr("box 1: is not finite"), HasSubstr("box 2: is inverted"),
                HasSubstr("box 3: is empty"))));

  const auto dropped = read(record, "invalid_box_policy: DROP");
  EXPECT_THAT(dropped->example.area, ElementsAre(0, 6));
  EXPECT_EQ(dropped->report.count(Problem::kDroppedBox), 5);

  EXPECT_THAT([&] { read(record, "invalid_box_policy: FAIL"); },
              fails_with<DataError>("box 1: is not finite: ymin 0 xmin 0 ymax nan"));
}

TEST(ExampleDecoder, PixelCoordinatesMakeABadRecord) {
  EXPECT_THAT([] { read(picture_record(10, 20).box(10, 20, 110, 120, 1)); },
              fails_with<BadRecord>("box 0: image/object/bbox: 10 looks like pixels"));
}

TEST(ExampleDecoder, ListsThatDisagreeMakeABadRecord) {
  auto record = picture_record(4, 4).box(0, 0, 1, 1, 1);
  record.floats("image/object/bbox/xmax", {1, 1});
  EXPECT_THAT([&] { read(record); }, fails_with<BadRecord>("image/object/bbox/xmax: has 2 values for 1 boxes"));
  record.floats("image/object/bbox/xmax", {});
  EXPECT_THAT([&] { read(record); }, fails_with<BadRecord>("1 ymin, 1 xmin, 1 ymax, 0 xmax"));
  for (const char* key : {"image/object/area", "image/object/weight"})
    EXPECT_THAT(
        [&] {
          read(picture_record(4, 4).box(0, 0, 1, 1, 1).floats(key, {1, 2}));
        },
        fails_with<BadRecord>(std::string(key) + ": has 2 values for 1 boxes"));
  for (const char* key : {"image/object/is_crowd", "image/object/class/label"})
    EXPECT_THAT(
        [&] {
          read(picture_record(4, 4).box(0, 0, 1, 1, 1).ints(key, {1, 2}));
        },
        fails_with<BadRecord>(std::string(key) + ": has 2 values for 1 boxes"));
  EXPECT_THAT([&] { read(picture_record(4, 4).box(0, 0, 1, 1).floats("image/object/class/label", {1})); },
              fails_with<BadRecord>("image/object/class/label: holds floats, expected integers"));
}

TEST(ExampleDecoder, BadPicturesAreNamedWithTheirRecord) {
  EXPECT_THAT([] { read(picture_record(4, 4).strings("image/encoded", {""})); },
              fails_with<BadRecord>("image/encoded: the picture has 0 bytes"));
  EXPECT_THAT([] { read(picture_record(4, 4).erase("image/encoded")); }, fails_with<BadRecord>("0 bytes"));
  const std::string jpeg = encode_jpeg(gradient_image(40, 40));
  EXPECT_THAT([&] { read(picture_record(4, 4).strings("image/encoded", {jpeg.substr(0, jpeg.size() / 2)})); },
              fails_with<BadRecord>("damaged JPEG"));
  ReadReport report;
  EXPECT_THAT(
      [&] {
        ExampleDecoder({}, nullptr).decode("\x0fnonsense", {"train.record", 3, 99}, report);
      },
      ThrowsMessage<BadRecord>(HasSubstr("train.record: record 3 (byte 99): is not a tf.Example")));
}

TEST(ExampleDecoder, ThePictureCanBeLeftEncoded) {
  DecoderOptions options;
  options.decode_image = false;
  ReadReport report;
  const Example example = ExampleDecoder(options, nullptr).decode(picture_record(6, 9).bytes(), {}, report);
  EXPECT_FALSE(example.image.defined());
  EXPECT_TRUE(decode_image(example.encoded).equal(gradient_image(6, 9)));
  EXPECT_EQ(example.original_height, 6);
  EXPECT_EQ(example.original_width, 9);
}

TEST(ExampleDecoder, ThePictureCanBeHadWhateverElseTheRecordHolds) {
  const ExampleRecord record = picture_record(4, 6).box(0, 0, 80, 80, 9).floats("image/object/weight", {1, 2});
  DecoderOptions options;
  options.only_picture = true;
  ReadReport report;
  const Example example = ExampleDecoder(options, pets()).decode(record.bytes(), {"train.record", 3, 99}, report);
  EXPECT_TRUE(example.image.equal(gradient_image(4, 6)));
  EXPECT_EQ(example.original_width, 6);
  EXPECT_THAT(example.boxes, IsEmpty());
  EXPECT_THAT(report.lines(), IsEmpty());
}

TEST(ExampleDecoder, OrientationIsChosenByTheAnnotatedSize) {
  const std::string jpeg = encode_jpeg(gradient_image(16, 32));
  auto record = picture_record(4, 4).strings("image/encoded", {with_orientation(jpeg, 6)});
  const auto ambiguous = read(record);
  EXPECT_EQ(ambiguous->example.image.size(0), 16);
  EXPECT_EQ(ambiguous->report.count(Problem::kAmbiguousOrientation), 1);

  record.ints("image/height", {32}).ints("image/width", {16});
  const auto turned = read(record);
  EXPECT_TRUE(turned->example.image.equal(upright(decode_image(jpeg), 6)));
  EXPECT_EQ(turned->example.original_height, 32);
  EXPECT_EQ(turned->report.count(Problem::kRotatedImage), 1);
  EXPECT_EQ(read(record, "exif: IGNORE")->example.image.size(0), 16);

  record.ints("image/height", {16}).ints("image/width", {32});
  const auto stored = read(record);
  EXPECT_EQ(stored->example.image.size(0), 16);
  EXPECT_THAT(stored->report.lines(), IsEmpty());
  EXPECT_EQ(read(record, "exif: APPLY")->example.image.size(0), 32);

  record.strings("image/encoded", {with_orientation(encode_jpeg(gradient_image(16, 16)), 6)}).ints("image/width", {16});
  EXPECT_EQ(read(record)->report.count(Problem::kAmbiguousOrientation), 1);
}

TEST(ExampleDecoder, ExifIsObeyedInWebpAndTiffToo) {
  const at::Tensor image = gradient_image(16, 32);
  for (const std::string& picture : {webp_with_orientation(image, 6), tiff_with_orientation(image, 6)}) {
    auto record = picture_record(4, 4).strings("image/encoded", {picture});
    EXPECT_EQ(read(record)->report.count(Problem::kAmbiguousOrientation), 1);
    EXPECT_TRUE(read(record, "exif: IGNORE")->example.image.equal(image));
    EXPECT_TRUE(read(record, "exif: APPLY")->example.image.equal(upright(image, 6)));
    record.ints("image/height", {32}).ints("image/width", {16});
    EXPECT_TRUE(read(record)->example.image.equal(upright(image, 6)));
  }
}

TEST(ExampleDecoder, APictureIsDecodedSmallerThanItIsButNotThanTheResizerMakesIt) {
  const auto text = config::parse<proto::ImageResizer>("fixed_shape_resizer { height: 30 width: 10 }", "test");
  DecoderOptions options;
  options.num_classes = 2;
  options.reduce_for = build_image_resizer(text.node());
  const std::string jpeg = encode_jpeg(gradient_image(50, 120));
  auto record = picture_record(4, 4).strings("image/encoded", {with_orientation(jpeg, 6)});
  record.ints("image/height", {120}).ints("image/width", {50}).box(.1f, .2f, .3f, .4f, 1);
  ReadReport report;
  // Upright it is 120 x 50: a half would do for 30 x 10, a quarter, too.
  const Example example = ExampleDecoder(options, nullptr).decode(record.bytes(), {}, report);
  EXPECT_EQ(example.image.sizes(), (at::IntArrayRef{30, 13, 3}));
  EXPECT_EQ(example.original_height, 120);
  EXPECT_EQ(example.original_width, 50);
  EXPECT_EQ(example.boxes, (std::vector<Box>{{.1f, .2f, .3f, .4f}}));
}

TEST(ExampleDecoder, MasksAreNumbersOrPngs) {
  auto record = picture_record(2, 3).box(0, 0, 1, 1, 1).box(0, 0, .5f, 1, 2);
  record.floats("image/object/mask", {1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0});
  const auto numbers = read(record, "load_instance_masks: true");
  EXPECT_TRUE(numbers->example.masks.equal(
      at::tensor({1., 0., 0., 0., 1., 0., 0., 0., 1., 0., 0., 0.}, at::kFloat).reshape({2, 2, 3})));
  EXPECT_THAT(numbers->example.mask_weights, ElementsAre(1, 1));
  record.floats("image/object/mask", {1, 0});
  EXPECT_THAT([&] { read(record, "load_instance_masks: true"); },
              fails_with<BadRecord>("image/object/mask: has 2 values, expected 2 masks of 3 x 2"));

  const std::string zero = grey_png(2, 3, 0), one = grey_png(2, 3, 9);
  record.erase("image/object/mask").strings("image/object/mask", {zero, one});
  const auto pngs = read(record, "load_instance_masks: true mask_type: PNG_MASKS");
  EXPECT_EQ(pngs->example.masks[0].sum().item<float>(), 0);
  EXPECT_EQ(pngs->example.masks[1].sum().item<float>(), 6);
  record.strings("image/object/mask", {zero, grey_png(3, 3, 1)});
  EXPECT_THAT([&] { read(record, "load_instance_masks: true mask_type: PNG_MASKS"); },
              fails_with<BadRecord>("mask 1 is 3 x 3"));
  EXPECT_FALSE(read(record)->example.masks.defined());
}

TEST(ExampleDecoder, KeypointsThatAreNotLabelledAreNan) {
  auto record = picture_record(4, 4).box(0, 0, 1, 1, 1);
  record.floats("image/object/keypoint/y", {.1f, .2f, .3f}).floats("image/object/keypoint/x", {.4f, .5f, .6f});
  record.ints("image/object/keypoint/visibility", {0, 1, 2});
  const auto result = read(record, "num_keypoints: 3");
  EXPECT_TRUE(std::isnan(result->example.keypoints[0][0][0].item<float>()));
  EXPECT_FLOAT_EQ(result->example.keypoints[0][2][1].item<float>(), .6f);
  EXPECT_EQ(result->example.keypoint_visibilities.sum().item<int64_t>(), 2);
  EXPECT_THAT([&] { read(record, "num_keypoints: 2"); },
              fails_with<BadRecord>("3 y and 3 x for 1 boxes with 2 keypoints"));
}

TEST(ExampleDecoder, ReadsMulticlassScoresAndImageLabels) {
  auto record = picture_record(4, 4).box(0, 0, 1, 1, 1);
  EXPECT_TRUE(read(record, "load_multiclass_scores: true", nullptr, 2)
                  ->example.multiclass_scores.equal(at::tensor({1.0f, 0.0f}).view({1, 2})))
      << "without scores, those of the label";
  record.floats("image/object/class/multiclass_scores", {.1f, .2f, .3f});
  EXPECT_TRUE(read(record, "load_multiclass_scores: true", nullptr, 3)
                  ->example.multiclass_scores.equal(at::tensor({.1f, .2f, .3f}).view({1, 3})));
  EXPECT_THAT([&] { read(record, "load_multiclass_scores: true", nullptr, 2); },
              fails_with<BadRecord>("has 3 values for 1 boxes and 2 classes"));
  record.strings("image/class/text", {"dog", "cow"})
      .floats("image/class/confidence", {1, 0})
      .ints("image/neg_category_ids", {5, 77});
  const auto result = read(record);
  EXPECT_THAT(result->example.image_classes, ElementsAre(1, -1));
  EXPECT_THAT(result->example.image_confidences, ElementsAre(1, 0));
  EXPECT_THAT(result->example.negative_classes, ElementsAre(4, -1));
}

TEST(ExampleDecoder, WhatIsNotBuiltIsRefusedByName) {
  for (const char* field : {"load_context_features: true", "num_additional_channels: 1",
                            "input_type: TF_SEQUENCE_EXAMPLE", "expand_labels_hierarchy: true"}) {
    const std::string text = field;
    EXPECT_THAT([&] { read(picture_record(4, 4), text); },
                ThrowsMessage<ConfigError>(HasSubstr("is not supported yet: " + text.substr(0, text.find(':')))));
  }
  const char* const of_other_models =
      "load_context_image_ids: true load_dense_pose: true load_track_id: true load_keypoint_depth_features: true";
  EXPECT_TRUE(read(picture_record(4, 4), of_other_models)->example.image.defined());
  EXPECT_THAT([] { read(picture_record(4, 4), "num_additional_channels: -1"); },
              ThrowsMessage<ConfigError>(HasSubstr("must be >= 0")));
}

TEST(ReadReport, CountsAThingOnceHoweverOftenItIsRead) {
  ReadReport report;
  for (int i = 0; i < 3; ++i) report.add(Problem::kDroppedBox, {"a: record 1"}, "why");
  for (int i = 0; i < 5; ++i) report.add(Problem::kDroppedBox, {"b: record " + std::to_string(i)}, "");
  EXPECT_EQ(report.count(Problem::kDroppedBox), 6);
  EXPECT_THAT(report.lines(), ElementsAre("6 box(es) left out: a: record 1: why; b: record 0; b: record 1; ..."));
}

}  // namespace
}  // namespace osprey::data
