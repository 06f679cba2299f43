#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "osprey/base/error.h"
#include "osprey/config/parse.h"
#include "osprey/data/fake_source.h"
#include "osprey/data/image_codec.h"
#include "osprey/data/loader.h"
#include "osprey/data/record_file.h"
#include "support/example_record.h"
#include "support/log.h"
#include "support/temp_dir.h"

// Steps of data_augmentation_options that take several pictures of a reader.
namespace osprey::data {
namespace {
using namespace ::osprey::testing;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr const char* kBothSteps =
    "data_augmentation_options { random_horizontal_flip {} }"
    "data_augmentation_options { random_mosaic { probability: 0.7 } }"
    "data_augmentation_options { ssd_random_crop {} }"
    "data_augmentation_options { random_mix_up { probability: 0.7 } }";
/// Pixels say of which pictures they are made: half of one, half of another.
constexpr const char* kHalves = "data_augmentation_options { random_mix_up { probability: 1 alpha: 1e30 } }";

// Pictures of one level, 10 * i, with i % 3 + 1 boxes; "broken" ones cannot be decoded.
std::string write_levels(const TempDir& dir, int count, const std::set<int>& broken = {}) {
  const std::string path = dir / fmt::format("levels_{}_{}.record", count, broken.size());
  RecordWriter writer(path);
  for (int i = 0; i < count; ++i) {
    ExampleRecord record = picture_record(12, 16, std::to_string(i));
    record.strings("image/encoded", {encode_png(at::full({12, 16, 3}, 10 * i, at::kByte))});
    record.strings("image/format", {"png"});
    for (int k = 0; k <= i % 3; ++k) record.box(0.1f, 0.1f + 0.05f * static_cast<float>(k), 0.6f, 0.9f, 1 + k % 2);
    if (broken.contains(i)) record.strings("image/encoded", {"not a picture"});
    writer.write(record.bytes());
  }
  writer.close();
  return path;
}

SourceOptions options_with(const char* steps, int64_t batch_size) {
  SourceOptions options;
  options.batch_size = batch_size;
  options.num_classes = 2;
  options.max_boxes = 30;
  options.num_workers = 2;
  options.resizer = build_image_resizer(
      config::parse<proto::ImageResizer>("fixed_shape_resizer { height: 12 width: 16 }", "test").node());
  options.augmenter = build_augmenter(config::parse<proto::TrainConfig>(steps, "test").node());
  return options;
}

std::unique_ptr<RecordSource> reader_of(const std::string& path, const SourceOptions& options,
                                        const std::string& more = "") {
  return make_source(config::parse<proto::InputReader>(
                         fmt::format("tf_record_input_reader {{ input_path: '{}' }} {}", path, more), "test")
                         .node(),
                     options);
}

void expect_same(const Batch& a, const Batch& b) {
  EXPECT_EQ(a.ids, b.ids);
  for (auto field : {&Batch::images, &Batch::boxes, &Batch::classes, &Batch::weights, &Batch::valid})
    EXPECT_TRUE(at::equal(a.*field, b.*field));
}

TEST(CombiningLoader, ThreadsSharesAndResumingNeverChangeABatch) {
  const TempDir dir;
  const std::string path = write_levels(dir, 11);
  SourceOptions one = options_with(kBothSteps, 4), many = one;
  one.num_workers = 1;
  many.num_workers = 5;
  many.prefetch_batches = 7;
  std::vector<Batch> expected;
  const auto a = reader_of(path, one), b = reader_of(path, many);
  for (int i = 0; i < 9; ++i) expect_same(expected.emplace_back(*a->next()), *b->next());
  int64_t weighed = 0, crowded = 0;
  for (const Batch& batch : expected) {
    weighed += (batch.weights > 0).logical_and(batch.weights < 1).sum().item<int64_t>();
    crowded += batch.valid.sum(1).gt(3).sum().item<int64_t>();
  }
  EXPECT_GT(weighed, 10) << "else this shows nothing";
  EXPECT_GT(crowded, 10) << "no picture has more than 3 boxes by itself";

  const auto resumed = reader_of(path, many);
  resumed->seek(6);
  for (size_t i = 6; i < 9; ++i) expect_same(*resumed->next(), expected[i]);

  for (int64_t share = 0; share < 2; ++share) {
    SourceOptions part = one;
    part.batch_size = 2;
    part.share = share;
    part.num_shares = 2;
    const auto replica = reader_of(path, part);
    for (const Batch& batch : expected) expect_same(*replica->next(), slice(batch, share * 2, share * 2 + 2));
  }
  const auto kept = reader_of(path, one, "cache_mb: 1");
  for (const Batch& batch : expected) expect_same(*kept->next(), batch);
}

/// Twice the level of each picture, which is the sum of the levels of the two that it is made of.
std::vector<int64_t> sums(const Batch& batch) {
  std::vector<int64_t> levels;
  for (int64_t i = 0; i < batch.size(); ++i) {
    const at::Tensor pixels = batch.images[i].to(at::kFloat);
    EXPECT_EQ(pixels.min().item<float>(), pixels.max().item<float>());
    levels.push_back(2 * pixels.max().to(at::kLong).item<int64_t>());
  }
  return levels;
}

TEST(CombiningLoader, OthersAreAnyExamplesOfTheReaderAndAnewInEveryEpoch) {
  const TempDir dir;
  const auto reader = reader_of(write_levels(dir, 8), options_with(kHalves, 8));
  std::set<int64_t> others, of_three;
  for (int epoch = 0; epoch < 20; ++epoch) {
    const Batch batch = *reader->next();
    const std::vector<int64_t> levels = sums(batch);
    for (size_t i = 0; i < levels.size(); ++i) {
      const int64_t own = std::stoi(batch.ids[i]), other = levels[i] / 10 - own;
      others.insert(other);
      if (own == 3) of_three.insert(other);
    }
  }
  EXPECT_EQ(others, (std::set<int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_GE(of_three.size(), 6u);
}

TEST(CombiningLoader, OthersAreAmongWhatAnEpochHas) {
  const TempDir dir;
  const auto reader = reader_of(write_levels(dir, 9), options_with(kHalves, 10), "sample_1_of_n_examples: 4");
  std::set<int64_t> others;
  for (int i = 0; i < 10; ++i) {
    const Batch batch = *reader->next();
    const std::vector<int64_t> levels = sums(batch);
    for (size_t row = 0; row < levels.size(); ++row) others.insert(levels[row] / 10 - std::stoi(batch.ids[row]));
  }
  EXPECT_EQ(others, (std::set<int64_t>{0, 4, 8}));

  const std::string dark = write_levels(dir, 2), all = write_levels(dir, 9);
  const auto of_sets = make_source(
      config::parse<proto::InputReader>(fmt::format("tf_record_input_reader {{ input_path: '{}' input_path: '{}' }} "
                                                    "sample_from_datasets_weights: [1, 0]",
                                                    dark, all),
                                        "test")
          .node(),
      options_with(kHalves, 11));
  for (int i = 0; i < 5; ++i)
    for (const int64_t level : sums(*of_sets->next())) EXPECT_LE(level, 20) << "of the first set alone";
}

TEST(CombiningLoader, OfOneExampleTheOtherIsItself) {
  const TempDir dir;
  const auto reader = reader_of(write_levels(dir, 1), options_with(kHalves, 2));
  const Batch batch = *reader->next();
  EXPECT_TRUE(at::equal(batch.valid.sum(1), at::tensor({2, 2}).to(at::kLong))) << "its box twice";
  EXPECT_TRUE(at::allclose(batch.weights.narrow(1, 0, 2), at::full({2, 2}, 0.5f)));
}

TEST(CombiningLoader, ABadOtherIsReplacedByTheNextAndCountedOnce) {
  const TempDir dir;
  const std::string path = write_levels(dir, 6, {1, 4});
  SourceOptions tolerant = options_with(kHalves, 6);
  tolerant.max_bad_fraction = 0.5;
  const auto reader = reader_of(path, tolerant, "shuffle: false"), again = reader_of(path, tolerant, "shuffle: false");
  std::set<int64_t> others;
  for (int epoch = 0; epoch < 20; ++epoch) {
    const Batch batch = *reader->next();
    expect_same(batch, *again->next());
    const std::vector<int64_t> levels = sums(batch);
    for (size_t i = 0; i < levels.size(); ++i) others.insert(levels[i] / 10 - std::stoi(batch.ids[i]));
  }
  EXPECT_EQ(others, (std::set<int64_t>{0, 2, 3, 5}));
  EXPECT_EQ(reader->num_skipped(), 2);
  EXPECT_THROW(reader_of(path, options_with(kHalves, 6))->next(), DataError) << "more than max_bad_fraction";
  EXPECT_THROW(reader_of(path, tolerant, "corrupt_image_policy: FAIL_ON_CORRUPT")->next(), DataError);
}

TEST(CombiningLoader, RowsAreFoundForTheBoxesOfAllPictures) {
  const TempDir dir;
  SourceOptions found = options_with(kBothSteps, 2);
  found.max_boxes = 0;
  const std::string path = write_levels(dir, 5);
  int64_t rows = 0;
  const std::string log = logged_by([&] { rows = reader_of(path, found)->next()->boxes.size(1); });
  EXPECT_EQ(rows, 24) << "3 boxes of 8 pictures";
  EXPECT_THAT(log, HasSubstr("rows for 24 boxes, for up to 8 pictures of up to 3 make one"));

  SourceOptions few = options_with(kHalves, 5);
  few.max_boxes = 1;
  const auto reader = reader_of(path, few);
  reader->next();
  EXPECT_GT(reader->num_dropped_boxes(), 5) << "excess boxes are counted as ever";
}

TEST(CombiningLoader, EvaluationHasPicturesAsTheyAre) {
  const TempDir dir;
  SourceOptions evaluation = options_with(kBothSteps, 4);
  evaluation.training = false;
  evaluation.max_boxes = 0;
  SourceOptions plain = evaluation;
  plain.augmenter = nullptr;
  const std::string path = write_levels(dir, 4);
  expect_same(*reader_of(path, evaluation)->next(), *reader_of(path, plain)->next());
}

TEST(CombiningLoader, ReadersThatGiveOneExampleAtATimeAreRefused) {
  const auto custom = config::parse<proto::InputReader>(
      "custom { [type.googleapis.com/osprey.protos.TFRecordInputReader] {} }", "test");
  for (const char* step : {"random_mosaic {}", "random_mix_up {}"})
    EXPECT_THAT(
        [&] {
          check_source(custom.node(), options_with(fmt::format("data_augmentation_options {{ {} }}", step).c_str(), 1));
        },
        ThrowsMessage<ConfigError>(HasSubstr("custom: gives one example at a time")));
  EXPECT_NO_THROW(check_source(custom.node(), options_with("", 1)));
}

TEST(CombiningLoader, FakeExamplesAreCombinedToo) {
  SourceOptions options = options_with(kBothSteps, 6);
  options.max_boxes = 0;
  const auto a = make_fake_source(options, 6), b = make_fake_source(options, 6);
  a->next();
  b->seek(1);
  const Batch batch = *a->next();
  expect_same(batch, *b->next());
  EXPECT_EQ(batch.boxes.size(1), 32);
  options.class_scores = true;
  const Batch scored = *make_fake_source(options, 6)->next();
  EXPECT_TRUE(at::equal(scored.classes.sum(2), scored.valid.to(at::kFloat))) << "scores join as classes do";
  EXPECT_TRUE((batch.weights > 0).logical_and(batch.weights < 1).any().item<bool>());
}

}  // namespace
}  // namespace osprey::data
