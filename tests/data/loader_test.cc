#include "osprey/data/loader.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "data/example_cache.h"
#include "osprey/base/error.h"
#include "osprey/config/parse.h"
#include "osprey/data/fake_source.h"
#include "osprey/data/image_codec.h"
#include "osprey/data/record_file.h"
#include "support/example_record.h"
#include "support/log.h"
#include "support/temp_dir.h"

namespace osprey::data {
namespace {
using namespace ::osprey::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Records 0..count-1 with source ids "0", "1", ... and (number % 4) boxes.
std::string write_records(const TempDir& dir, int count, const std::set<int>& broken = {}) {
  const std::string path = dir / "train.record";
  RecordWriter writer(path);
  for (int i = 0; i < count; ++i) {
    ExampleRecord record = picture_record(12 + i % 5, 16, std::to_string(i));
    for (int k = 0; k < i % 4; ++k) record.box(0.1f, 0.1f + 0.05f * static_cast<float>(k), 0.6f, 0.9f, 1 + k % 2);
    if (broken.count(i)) record.strings("image/encoded", {"not a picture"});
    writer.write(record.bytes());
  }
  writer.close();
  return path;
}

std::shared_ptr<const ImageResizer> fixed_resizer() {
  const auto text = config::parse<proto::ImageResizer>("fixed_shape_resizer { height: 8 width: 10 }", "test");
  return build_image_resizer(text.node());
}

std::shared_ptr<const Augmenter> augmenter() {
  const auto text = config::parse<proto::TrainConfig>(
      "data_augmentation_options { random_horizontal_flip {} } data_augmentation_options { ssd_random_crop {} }"
      "data_augmentation_options { random_adjust_brightness {} }",
      "test");
  return build_augmenter(text.node());
}

SourceOptions options(int64_t batch_size, bool training = true) {
  SourceOptions options;
  options.training = training;
  options.batch_size = batch_size;
  options.num_classes = 2;
  options.max_boxes = 3;
  options.num_workers = 2;
  options.resizer = fixed_resizer();
  options.augmenter = augmenter();
  return options;
}

std::unique_ptr<RecordSource> source(const std::string& path, const SourceOptions& options,
                                     const std::string& more = "") {
  const auto text = config::parse<proto::InputReader>(
      fmt::format("tf_record_input_reader {{ input_path: '{}' }} {}", path, more), "test");
  return make_source(text.node(), options);
}

void expect_equal(const Batch& a, const Batch& b) {
  EXPECT_EQ(a.ids, b.ids);
  for (auto field : {&Batch::images, &Batch::true_shapes, &Batch::boxes, &Batch::classes, &Batch::weights,
                     &Batch::valid, &Batch::image_weights, &Batch::example_keys, &Batch::original_sizes})
    EXPECT_TRUE(at::equal(a.*field, b.*field));
}

std::vector<std::string> ids(BatchSource& source, int batches) {
  std::vector<std::string> all;
  for (int i = 0; i < batches; ++i) {
    const Batch batch = *source.next();
    all.insert(all.end(), batch.ids.begin(), batch.ids.end());
  }
  return all;
}

TEST(Loader, BatchesHaveTheDocumentedShapes) {
  TempDir dir;
  const auto loader = source(write_records(dir, 7), options(4));
  const Batch batch = *loader->next();
  EXPECT_EQ(batch.images.sizes(), (at::IntArrayRef{4, 3, 8, 10}));
  EXPECT_EQ(batch.images.scalar_type(), at::kByte);
  EXPECT_TRUE(batch.images.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_EQ(batch.boxes.sizes(), (at::IntArrayRef{4, 3, 4}));
  EXPECT_EQ(batch.image_weights.sum().item<float>(), 4);
  EXPECT_EQ(batch.original_sizes[0][1].item<int64_t>(), 16);
  EXPECT_TRUE(at::equal(batch.valid, batch.weights > 0));
  EXPECT_EQ(loader->num_examples(), 7);
}

TEST(Loader, ReducedDecodingIsNotForMasks) {
  const TempDir dir;
  EXPECT_THAT([&] { source(write_records(dir, 1), options(1), "decode_reduced: true load_instance_masks: true"); },
              ThrowsMessage<ConfigError>(HasSubstr("decode_reduced: does not go with load_instance_masks")));
}

TEST(Loader, ReducedDecodingGivesTheSameBatchOfSmootherPictures) {
  const TempDir dir;
  RecordWriter writer(dir / "large.record");
  ExampleRecord record = picture_record(4, 4).box(0.1f, 0.1f, 0.6f, 0.9f, 1);
  record.strings("image/encoded", {encode_jpeg(gradient_image(160, 200))}).strings("image/format", {"jpeg"});
  writer.write(record.bytes());
  writer.close();
  SourceOptions one = options(1);
  one.augmenter = nullptr;
  const Batch whole = *source(dir / "large.record", one)->next(),
              reduced = *source(dir / "large.record", one, "decode_reduced: true")->next();
  EXPECT_TRUE(at::equal(whole.boxes, reduced.boxes));
  EXPECT_TRUE(at::equal(whole.original_sizes, reduced.original_sizes));
  EXPECT_FALSE(at::equal(whole.images, reduced.images)) << "each pixel of 20 x 25 is of 8 x 8";
  EXPECT_LT((whole.images.to(at::kFloat) - reduced.images.to(at::kFloat)).abs().max().item<float>(), 10);
}

TEST(Loader, ThreadCountNeverChangesABatch) {
  TempDir dir;
  const std::string path = write_records(dir, 11);
  SourceOptions one = options(4), many = options(4);
  one.num_workers = 1;
  many.num_workers = 5;
  many.prefetch_batches = 7;
  const auto a = source(path, one), b = source(path, many);
  for (int i = 0; i < 9; ++i) expect_equal(*a->next(), *b->next());
}

TEST(Loader, WithoutAStaticSizeEachBatchIsAsLargeAsItsLargestPictureForAnyNumberOfThreads) {
  const TempDir dir;
  const std::string path = write_records(dir, 11);
  const auto text =
      config::parse<proto::ImageResizer>("keep_aspect_ratio_resizer { min_dimension: 12 max_dimension: 24 }", "test");
  SourceOptions one = options(4), many = options(4);
  one.resizer = many.resizer = build_image_resizer(text.node());
  one.augmenter = many.augmenter = nullptr;
  one.num_workers = 1;
  many.num_workers = 5;
  const auto a = source(path, one, "shuffle: false"), b = source(path, many, "shuffle: false");
  for (int i = 0; i < 9; ++i) {
    const Batch batch = *a->next();
    expect_equal(batch, *b->next());
    EXPECT_EQ(batch.images.size(2), batch.true_shapes.select(1, 0).max().item<int64_t>());
    EXPECT_EQ(batch.images.size(3), batch.true_shapes.select(1, 1).max().item<int64_t>());
  }
  // Records of 12 to 16 x 16 pixels: the last batch of an evaluation has three of them, of 15, 16 and 12.
  one.training = false;
  const auto evaluation = source(path, one, "shuffle: false");
  evaluation->seek(2);
  const Batch last = *evaluation->next();
  EXPECT_EQ(last.images.sizes(), (at::IntArrayRef{4, 3, 12, 16}));
  EXPECT_EQ(last.image_weights.sum().item<float>(), 3);
}

TEST(Loader, SeekEqualsContinuing) {
  TempDir dir;
  const std::string path = write_records(dir, 11);
  const auto whole = source(path, options(4)), resumed = source(path, options(4));
  for (int i = 0; i < 5; ++i) whole->next();
  resumed->next();
  resumed->seek(5);
  EXPECT_EQ(resumed->position(), 5);
  for (int i = 0; i < 3; ++i) expect_equal(*whole->next(), *resumed->next());
  resumed->seek(0);
  const auto again = source(path, options(4));
  expect_equal(*again->next(), *resumed->next());
}

TEST(Loader, EveryEpochHoldsEveryRecordOnceInAnotherOrder) {
  TempDir dir;
  const auto loader = source(write_records(dir, 10), options(5));
  const std::vector<std::string> first = ids(*loader, 2), second = ids(*loader, 2);
  EXPECT_EQ(std::set<std::string>(first.begin(), first.end()).size(), 10u);
  EXPECT_EQ(std::set<std::string>(second.begin(), second.end()).size(), 10u);
  EXPECT_NE(first, second);
}

TEST(Loader, ABatchCrossesTheBorderOfEpochs) {
  TempDir dir;
  const auto loader = source(write_records(dir, 6), options(4), "shuffle: false");
  EXPECT_EQ(ids(*loader, 3), (std::vector<std::string>{"0", "1", "2", "3", "4", "5", "0", "1", "2", "3", "4", "5"}));
}

TEST(Loader, SharesOfABatchAreTheBatch) {
  const TempDir dir;
  const std::string path = write_records(dir, 7, {3});
  SourceOptions whole = options(4);
  whole.max_bad_fraction = 1;
  const auto expected = source(path, whole, "num_epochs: 5");
  for (const int64_t shares : {2, 4}) {
    std::vector<std::unique_ptr<RecordSource>> parts;
    for (int64_t share = 0; share < shares; ++share) {
      SourceOptions part = whole;
      part.batch_size = 4 / shares;
      part.share = share;
      part.num_shares = shares;
      parts.push_back(source(path, part, "num_epochs: 5"));
      parts.back()->seek(2);
    }
    expected->seek(2);
    for (int i = 2; i < 8; ++i) {
      const auto batch = expected->next();
      ASSERT_TRUE(batch);
      for (int64_t share = 0; share < shares; ++share) {
        const auto part = parts[static_cast<size_t>(share)]->next();
        ASSERT_TRUE(part) << "batch " << i;
        expect_equal(*part, slice(*batch, share * 4 / shares, (share + 1) * 4 / shares));
      }
    }
    for (const auto& part : parts) EXPECT_FALSE(part->next()) << "35 examples are 8 whole batches of 4";
  }
}

TEST(Loader, SharesOfAnEvaluationAreItsBatchesInTurn) {
  const TempDir dir;
  for (const int images : {1, 5, 6, 9}) {
    const std::string path = write_records(dir, images);
    for (const int64_t shares : {2, 3}) {
      std::vector<std::unique_ptr<RecordSource>> parts;
      for (int64_t share = 0; share < shares; ++share) {
        SourceOptions part = options(2, /*training=*/false);
        part.share = share;
        part.num_shares = shares;
        parts.push_back(source(path, part));
        EXPECT_EQ(parts.back()->num_examples(), images);
      }
      const auto whole = source(path, options(2, /*training=*/false));
      int64_t index = 0;
      for (; const auto batch = whole->next(); ++index) {
        const auto part = parts[static_cast<size_t>(index % shares)]->next();
        ASSERT_TRUE(part) << images << " images, " << shares << " shares, batch " << index;
        expect_equal(*part, *batch);
      }
      for (const auto& part : parts) EXPECT_FALSE(part->next()) << images << " images, " << shares << " shares";
    }
  }
}

TEST(Loader, EvaluationCountsEveryImageOnceAndPadsTheLastBatch) {
  TempDir dir;
  const auto loader = source(write_records(dir, 6), options(4, /*training=*/false), "shuffle: false");
  EXPECT_EQ(loader->next()->image_weights.sum().item<float>(), 4);
  const Batch last = *loader->next();
  EXPECT_EQ(last.size(), 4);
  EXPECT_TRUE(at::equal(last.image_weights, at::tensor({1.f, 1.f, 0.f, 0.f})));
  EXPECT_FALSE(last.valid[2].any().item<bool>());
  EXPECT_FALSE(loader->next().has_value());
  loader->seek(1);
  EXPECT_EQ(loader->next()->ids[0], "4");
}

TEST(Loader, RecordsOfRareClassesComeMoreOftenInEveryEpochAndAugmentedAnew) {
  const TempDir dir;
  const std::string path = dir / "train.record";
  RecordWriter writer(path);
  for (int i = 0; i < 16; ++i) {
    ExampleRecord record = picture_record(12, 16, std::to_string(i)).box(0.1f, 0.1f, 0.6f, 0.9f, 1);
    if (i == 5) record.box(0.2f, 0.1f, 0.6f, 0.9f, 2);
    writer.write(record.bytes());
  }
  writer.close();
  // Class 2 is in a sixteenth of the records: sqrt(0.5625 / 0.0625) = 3 times; class 1 is in all.
  const auto training = source(path, options(18), "repeat_factor_threshold: 0.5625");
  EXPECT_EQ(training->num_examples(), 18);
  std::vector<std::string> expected{"5", "5"};
  for (int i = 0; i < 16; ++i) expected.push_back(std::to_string(i));
  std::sort(expected.begin(), expected.end());
  for (int epoch = 0; epoch < 3; ++epoch) {
    const Batch batch = *training->next();
    std::vector<std::string> seen = batch.ids;
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(seen, expected);
    std::vector<at::Tensor> of_five;
    for (size_t i = 0; i < batch.ids.size(); ++i)
      if (batch.ids[i] == "5") of_five.push_back(batch.images[static_cast<int64_t>(i)]);
    EXPECT_FALSE(of_five[0].equal(of_five[1]) && of_five[1].equal(of_five[2])) << "each with draws of its own";
  }
  EXPECT_THAT([&] { source(path, options(18, /*training=*/false), "repeat_factor_threshold: 0.1"); },
              ThrowsMessage<ConfigError>(HasSubstr("repeat_factor_threshold: is for training")));
  EXPECT_THAT([&] { source(path, options(18), "repeat_factor_threshold: 1.5"); },
              ThrowsMessage<ConfigError>(HasSubstr("must be in 0..1, got 1.5")));
}

TEST(Loader, AShareOfTheRecordsHasWhatIsLeftOfAWholeNumberOfRepeats) {
  const TempDir dir;
  const std::string path = dir / "train.record";
  RecordWriter writer(path);
  for (int i = 0; i < 400; ++i)
    writer.write(picture_record(2, 2, std::to_string(i)).box(0, 0, 1, 1, i % 4 == 0 ? 2 : 1).bytes());
  writer.close();
  // Class 2 is in a quarter: sqrt(0.5625 / 0.25) = 1.5 times, 50 of its 100 records once more.
  const int64_t one = source(path, options(1), "repeat_factor_threshold: 0.5625")->num_examples();
  EXPECT_GT(one, 435);
  EXPECT_LT(one, 465);
  // Every second record is read: 200, of which 100 have the class and all others are of class 1.
  const int64_t half =
      source(path, options(1), "repeat_factor_threshold: 0.5625 sample_1_of_n_examples: 2")->num_examples();
  EXPECT_EQ(half, one - 200);
  SourceOptions other = options(1);
  other.seed = 9;
  EXPECT_EQ(source(path, options(1), "repeat_factor_threshold: 0.5625")->num_examples(), one) << "the same every time";
  EXPECT_NE(ids(*source(path, other, "repeat_factor_threshold: 0.5625"), 40),
            ids(*source(path, options(1), "repeat_factor_threshold: 0.5625"), 40));
}

TEST(Loader, PicturesThatAreKeptAreNotReadAgain) {
  const TempDir dir;
  const std::string path = write_records(dir, 9);
  const auto decoded = source(path, options(4)), kept = source(path, options(4), "cache_mb: 1");
  std::vector<Batch> expected;
  for (int i = 0; i < 12; ++i) expected.push_back(*decoded->next());
  int i = 0;
  for (; i < 6; ++i) expect_equal(*kept->next(), expected[static_cast<size_t>(i)]);
  const auto size = std::filesystem::file_size(path);
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << std::string(size, '\0');
  for (; i < 12; ++i) expect_equal(*kept->next(), expected[static_cast<size_t>(i)]);
  const auto read_again = source(write_records(dir, 9), options(4));
  for (i = 0; i < 6; ++i) read_again->next();
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << std::string(size, '\0');
  EXPECT_THROW(for (i = 0; i < 12; ++i) read_again->next(), DataError) << "else this shows nothing";
  EXPECT_THAT([&] { source(write_records(dir, 2), options(2), "cache_mb: 4000000000"); },
              ThrowsMessage<ConfigError>(HasSubstr("cache_mb: 4000000000 MiB of pictures do not fit into the ")));
}

TEST(ExampleCache, KeepsCopiesOfWhatFits) {
  ExampleCache cache(3 * 12 * 10);
  Example example;
  example.id = "a";
  example.image = at::full({12, 10, 3}, 7, at::kByte);
  EXPECT_FALSE(cache.find(5));
  cache.keep(5, example);
  example.image.fill_(9);
  std::optional<Example> found = cache.find(5);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->id, "a");
  EXPECT_TRUE(found->image.eq(7).all().item<bool>());
  found->image.fill_(8);
  EXPECT_TRUE(cache.find(5)->image.eq(7).all().item<bool>());
  cache.keep(6, example);
  EXPECT_FALSE(cache.find(6)) << "is full";
  ExampleCache none(0);
  none.keep(1, example);
  EXPECT_FALSE(none.find(1));
}

/// Files of so many records, "<file>-<i>" by name.
std::string write_set(const TempDir& dir, const std::string& name, int count) {
  RecordWriter writer(dir / name);
  for (int i = 0; i < count; ++i)
    writer.write(picture_record(2, 2, name + "-" + std::to_string(i)).box(0, 0, 1, 1, 1).bytes());
  writer.close();
  return dir / name;
}

std::unique_ptr<RecordSource> source_of(const std::vector<std::string>& paths, const SourceOptions& options,
                                        const std::vector<int>& weights, const std::string& more = "") {
  std::string reader = more;
  for (const int weight : weights) reader += fmt::format(" sample_from_datasets_weights: {}", weight);
  reader += " tf_record_input_reader {";
  for (const std::string& path : paths) reader += fmt::format(" input_path: '{}'", path);
  return make_source(config::parse<proto::InputReader>(reader + " }", "test").node(), options);
}

TEST(Loader, AnEpochTakesOfEachInputPathByItsWeight) {
  const TempDir dir;
  const std::string large = write_set(dir, "large", 30), small = write_set(dir, "small", 4),
                    none = write_set(dir, "none", 6);
  // 40 records, so 30 of large, 10 of small and none of the third in each epoch.
  const auto mixed = source_of({large, small, none}, options(40), {3, 1, 0});
  EXPECT_EQ(mixed->num_examples(), 40);
  std::map<std::string, int> seen;
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::map<std::string, int> of_set;
    const std::vector<std::string> order = ids(*mixed, 1);
    for (const std::string& id : order) {
      ++of_set[id.substr(0, 5)];
      ++seen[id];
    }
    EXPECT_EQ(of_set, (std::map<std::string, int>{{"large", 30}, {"small", 10}}));
    EXPECT_FALSE(std::is_partitioned(order.begin(), order.end(), [](const auto& id) { return id[0] == 'l'; }))
        << "one set after the other";
  }
  EXPECT_EQ(seen.size(), 34u);
  for (const auto& [id, times] : seen) EXPECT_EQ(times, id[0] == 'l' ? 2 : 5) << id << ": records take turns";

  // What an epoch has no room for comes in the next.
  const auto rarely = source_of({large, small}, options(34), {15, 19});
  std::set<std::string> of_large;
  for (int epoch = 0; epoch < 2; ++epoch)
    for (const std::string& id : ids(*rarely, 1))
      if (id[0] == 'l') of_large.insert(id);
  EXPECT_EQ(of_large.size(), 30u);

  const auto ordered = source_of({large, small}, options(34), {17, 17}, "shuffle: false");
  std::vector<std::string> of_small;
  for (const std::string& id : ids(*ordered, 1))
    if (id[0] == 's') of_small.push_back(id);
  ASSERT_EQ(of_small.size(), 17u);
  EXPECT_EQ(std::count(of_small.begin(), of_small.end(), "small-0"), 5) << "the first ones, once more";
  EXPECT_EQ(std::count(of_small.begin(), of_small.end(), "small-1"), 4);
}

TEST(Loader, WeightsOfInputPathsThatMakeNoSenseAreRefused) {
  const TempDir dir;
  const std::string a = write_set(dir, "a", 3), b = write_set(dir, "b", 3);
  const auto refused = [&](const std::vector<int>& weights, const std::string& words, bool training = true,
                           const std::string& more = "") {
    EXPECT_THAT(
        [&] {
          source_of({a, b}, options(2, training), weights, more);
        },
        ThrowsMessage<ConfigError>(HasSubstr("sample_from_datasets_weights: " + words)));
  };
  refused({1}, "has 1 values for 2 input paths");
  refused({0, 0}, "must be finite, >= 0, and not all 0");
  refused({2, -1}, "must be finite");
  refused({1, 1}, "is for training", /*training=*/false);
  refused({1, 1}, "does not go with repeat_factor_threshold", /*training=*/true, "repeat_factor_threshold: 0.5");
  EXPECT_THAT(
      [&] {
        source_of({a, dir / "?"}, options(2), {1, 1});
      },
      ThrowsMessage<ConfigError>(HasSubstr("'" + a + "' is of two paths")));
}

TEST(Loader, NumEpochsAndSamplingBoundTheRun) {
  TempDir dir;
  const std::string path = write_records(dir, 10);
  const auto two_epochs = source(path, options(4), "num_epochs: 2 sample_1_of_n_examples: 3 shuffle: false");
  EXPECT_EQ(two_epochs->num_examples(), 4);
  EXPECT_EQ(ids(*two_epochs, 2), (std::vector<std::string>{"0", "3", "6", "9", "0", "3", "6", "9"}));
  EXPECT_FALSE(two_epochs->next().has_value());
  EXPECT_EQ(ids(*source(path, options(4), "num_epochs: 1 shuffle: false"), 2).size(), 8u);
  const auto rest = source(path, options(4), "num_epochs: 1 shuffle: false drop_remainder: false");
  rest->seek(2);
  EXPECT_EQ(rest->next()->image_weights.sum().item<float>(), 2);
}

TEST(Loader, ABadRecordIsReplacedByTheNextAndCounted) {
  TempDir dir;
  SourceOptions tolerant = options(3);
  tolerant.max_bad_fraction = 0.2;
  const auto loader = source(write_records(dir, 6, {1}), tolerant, "shuffle: false");
  EXPECT_EQ(ids(*loader, 2), (std::vector<std::string>{"0", "2", "2", "3", "4", "5"}));
  EXPECT_EQ(loader->num_skipped(), 1);
  ids(*loader, 2);
  EXPECT_EQ(loader->num_skipped(), 1);
}

TEST(Loader, ManyBadRecordsAreCountedAndAFewOfThemNamed) {
  TempDir dir;
  SourceOptions tolerant = options(2);
  tolerant.max_bad_fraction = 1;
  const auto loader = source(write_records(dir, 10, {0, 1, 2, 3, 4, 5, 6}), tolerant, "shuffle: false");
  const std::string text = logged_by([&] { ids(*loader, 15); });  // three epochs
  int named = 0;
  for (size_t at = 0; (at = text.find("left out: ", at)) != std::string::npos; ++at) ++named;
  EXPECT_EQ(named, 5) << text;
  EXPECT_THAT(text,
              AllOf(HasSubstr("(more are counted, not named)"), HasSubstr("and 2 more left out, 7 in all so far")));
}

TEST(Loader, TooManyBadRecordsEndTheRunWithTheirNames) {
  TempDir dir;
  const auto loader = source(write_records(dir, 6, {1, 2}), options(3), "shuffle: false");
  EXPECT_THAT([&] { loader->next(); },
              ThrowsMessage<DataError>(AllOf(HasSubstr("train.record"), HasSubstr("max_bad_fraction"))));
}

TEST(Loader, EvaluationEndsAtABadRecordUnlessToldToSkip) {
  TempDir dir;
  const std::string path = write_records(dir, 3, {1});
  EXPECT_THAT([&] { source(path, options(3, false), "shuffle: false")->next(); },
              ThrowsMessage<DataError>(AllOf(HasSubstr("train.record: record 1"), HasSubstr("'1'"),
                                             HasSubstr("corrupt_image_policy: SKIP"))));
  const auto skipping = source(path, options(3, false), "shuffle: false corrupt_image_policy: SKIP");
  EXPECT_TRUE(at::equal(skipping->next()->image_weights, at::tensor({1.f, 0.f, 1.f})));
  EXPECT_EQ(skipping->num_skipped(), 1);
}

TEST(Loader, BoxesBeyondTheLimitAreLeftOutAndCounted) {
  TempDir dir;
  SourceOptions two = options(4, false), found = options(4, false);
  two.max_boxes = 2;
  found.max_boxes = 0;
  const std::string path = write_records(dir, 4);
  const auto loader = source(path, two, "shuffle: false");
  const Batch batch = *loader->next();
  EXPECT_TRUE(at::equal(batch.valid.sum(1), at::tensor({0, 1, 2, 2}).to(at::kLong)));
  EXPECT_EQ(loader->num_dropped_boxes(), 1);
  EXPECT_EQ(source(path, found)->next()->boxes.size(1), 3);
}

TEST(Loader, StrictEndsAtBoxesBeyondTheLimit) {
  const TempDir dir;
  SourceOptions two = options(4);
  two.max_boxes = 2;
  two.strict = true;
  const auto loader = source(write_records(dir, 4), two, "shuffle: false");
  EXPECT_THAT([&] { loader->next(); },
              ThrowsMessage<DataError>(HasSubstr("image '3' has 3 boxes, max_number_of_boxes is 2")));
}

TEST(Loader, WaitingBatchesMustFitIntoMemory) {
  const TempDir dir;
  const std::string path = write_records(dir, 5), many = "num_prefetch_batches: 2000000000 ";
  EXPECT_THAT([&] { source(path, options(2), many); },
              ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr("num_prefetch_batches"), HasSubstr("MiB of memory that are free; lower it"))));
  EXPECT_EQ(source(path, options(2), many + "max_host_memory_mb: 1")->next()->size(), 2);
}

TEST(Loader, BatchesAheadMayBeLeftToTheProgram) {
  const TempDir dir;
  const std::string path = write_records(dir, 5);
  for (const char* said : {"-1", "0"})
    EXPECT_EQ(source(path, options(2), fmt::format("num_prefetch_batches: {}", said))->next()->size(), 2) << said;
  EXPECT_THAT([&] { source(path, options(2), "num_prefetch_batches: -2"); },
              ThrowsMessage<ConfigError>(HasSubstr("num_prefetch_batches: must be >= -1")));
}

TEST(Loader, RefusesWhatIsNotBuiltByName) {
  TempDir dir;
  const std::string path = write_records(dir, 2);
  EXPECT_THAT([&] { source(path, options(2), "input_type: TF_SEQUENCE_EXAMPLE"); },
              ThrowsMessage<ConfigError>(HasSubstr("input_type")));
  SourceOptions merged = options(2);
  merged.multi_label = true;
  EXPECT_THAT([&] { source(path, merged, "load_instance_masks: true"); },
              ThrowsMessage<ConfigError>(HasSubstr("only for boxes")));
  EXPECT_THAT([&] { source(dir / "missing.record", options(2)); },
              ThrowsMessage<DataError>(HasSubstr("missing.record")));
}

TEST(Loader, ALabelMapMustAgreeWithTheNumberOfClasses) {
  TempDir dir;
  write_file(dir / "map.pbtxt", "item { id: 1 name: 'a' } item { id: 3 name: 'b' }");
  EXPECT_THAT(
      [&] { source(write_records(dir, 2), options(2), fmt::format("label_map_path: '{}'", dir / "map.pbtxt")); },
      ThrowsMessage<ConfigError>(AllOf(HasSubstr("label_map_path"), HasSubstr("ids up to 3"))));
}

TEST(Loader, LabelsThatDisagreeAreSaidBeforeTheFirstBatch) {
  TempDir dir;
  SourceOptions one = options(2);
  one.num_classes = 1;
  EXPECT_THAT([&] { source(write_records(dir, 4), one); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("train.record"), HasSubstr("above num_classes"))));
}

TEST(FakeSource, HasScoresWhereTheConfigWantsThem) {
  SourceOptions scored = options(4);
  scored.class_scores = true;
  const Batch batch = *make_fake_source(scored, 6)->next();
  EXPECT_TRUE(at::equal(batch.classes.sum(2), batch.valid.to(at::kFloat)));
}

TEST(FakeSource, LiesAndStandsInTurnWhereSizesAreNotStatic) {
  SourceOptions any = options(1, false);
  any.resizer = build_image_resizer(
      config::parse<proto::ImageResizer>("keep_aspect_ratio_resizer { min_dimension: 24 max_dimension: 99 }", "test")
          .node());
  const auto fake = make_fake_source(any, 2);
  const Batch first = *fake->next(), second = *fake->next();
  EXPECT_EQ(first.images.sizes().slice(2), second.images.transpose(2, 3).sizes().slice(2));
  EXPECT_EQ(first.images.size(2) + first.images.size(3), 24 + 32);
}

TEST(FakeSource, GivesTheSameBatchesForTheSameSeed) {
  const auto a = make_fake_source(options(4), 6), b = make_fake_source(options(4), 6);
  a->next();
  b->seek(1);
  expect_equal(*a->next(), *b->next());
  const auto evaluation = make_fake_source(options(4, false), 6);
  evaluation->next();
  EXPECT_EQ(evaluation->next()->image_weights.sum().item<float>(), 2);
  EXPECT_FALSE(evaluation->next().has_value());
}

}  // namespace
}  // namespace osprey::data
