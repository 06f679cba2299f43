#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "osprey/base/error.h"
#include "osprey/config/label_map.h"
#include "osprey/data/create_records.h"
#include "osprey/data/example_decoder.h"
#include "osprey/data/image_codec.h"
#include "osprey/data/record_index.h"
#include "support/golden.h"
#include "support/pictures.h"
#include "support/temp_dir.h"

namespace osprey::data {
namespace {
using namespace ::osprey::testing;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

/// A box of whole pixels, of a cat.
struct Whole {
  int ymin, xmin, ymax, xmax;
  int area() const { return (ymax - ymin) * (xmax - xmin); }
  bool has(int y, int x) const { return y >= ymin && y < ymax && x >= xmin && x < xmax; }
};

/// Pascal VOC annotations and what is made of them.
class TileRecords : public ::testing::Test {
 protected:
  void add(const std::string& name, int height, int width, const std::vector<Whole>& boxes,
           const std::string& encoded) const {
    std::string objects;
    for (const Whole& box : boxes)
      objects += fmt::format(
          "<object><name>cat</name><bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax><ymax>{}</ymax></bndbox></"
          "object>",
          box.xmin, box.ymin, box.xmax, box.ymax);
    write_file(dir_ / ("voc/Annotations/" + name + ".xml"),
               fmt::format("<annotation><filename>{}</filename><size><width>{}</width><height>{}</height></size>{}"
                           "</annotation>",
                           name, width, height, objects));
    write_file(dir_ / ("voc/JPEGImages/" + name), encoded);
  }
  void add_png(const std::string& name, int height, int width, const std::vector<Whole>& boxes) const {
    add(name, height, width, boxes, encode_png(gradient_image(height, width)));
  }

  CreateRecordsOptions options(int64_t side, double overlap = 0.25) const {
    CreateRecordsOptions result;
    result.input = dir_ / "voc";
    result.label_map = dir_ / "map.pbtxt";
    result.output = dir_ / "out/train.record";
    result.tiles.side_px = side;
    result.tiles.overlap = overlap;
    return result;
  }
  CreateRecordsOptions tiles_only(int64_t side, double overlap = 0.25) const {
    CreateRecordsOptions result = options(side, overlap);
    result.tiles.whole_picture = false;
    return result;
  }

  /// What a reader gets; none of it may be objectionable.
  std::vector<Example> examples(const CreateRecordsResult& result) const {
    const ExampleDecoder decoder({}, std::make_shared<config::LabelMap>(config::load_label_map(dir_ / "map.pbtxt")));
    const RecordIndex index(result.files);
    ReadReport report;
    std::vector<Example> all;
    for (int64_t i = 0; i < index.size(); ++i) all.push_back(decoder.decode(index.read(i), index.origin(i), report));
    EXPECT_THAT(report.lines(), IsEmpty());
    return all;
  }

  TempDir dir_;
};

/// The corner that a tile's id ends in.
std::pair<int, int> corner_of(const std::string& id) {
  const size_t x = id.rfind("_x"), y = id.rfind("_y");
  return {std::stoi(id.substr(y + 2)), std::stoi(id.substr(x + 2))};
}

TEST_F(TileRecords, BoxesAreThoseThatCountingPixelsGives) {
  constexpr int kHeight = 150, kWidth = 211, kSide = 64;
  std::mt19937 random(7);
  std::vector<Whole> boxes;
  for (int i = 0; i < 60; ++i) {
    const int y = static_cast<int>(random() % (kHeight - 1)), x = static_cast<int>(random() % (kWidth - 1));
    boxes.push_back({y, x, std::min<int>(kHeight, y + 1 + static_cast<int>(random() % 90)),
                     std::min<int>(kWidth, x + 1 + static_cast<int>(random() % 90))});
  }
  add_png("a.png", kHeight, kWidth, boxes);
  CreateRecordsOptions request = tiles_only(kSide);
  request.tiles.min_visible = 0.4;
  const CreateRecordsResult result = create_records(request);
  const at::Tensor picture = gradient_image(kHeight, kWidth);
  int64_t cut = 0, objects = 0;
  at::Tensor seen = at::zeros({kHeight, kWidth}, at::kBool);
  std::vector<bool> found_whole(boxes.size());
  for (const Example& tile : examples(result)) {
    const auto [top, left] = corner_of(tile.id);
    const int height = static_cast<int>(tile.original_height), width = static_cast<int>(tile.original_width);
    EXPECT_TRUE(tile.image.equal(picture.narrow(0, top, height).narrow(1, left, width))) << tile.id;
    seen.narrow(0, top, height).narrow(1, left, width).fill_(true);
    size_t next = 0;
    for (size_t b = 0; b < boxes.size(); ++b) {
      const Whole& box = boxes[b];
      Whole part{height, width, 0, 0};  // around the pixels of the box in the tile
      int count = 0;
      for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x) {
          if (!box.has(top + y, left + x)) continue;
          ++count;
          part = {std::min(part.ymin, y), std::min(part.xmin, x), std::max(part.ymax, y + 1),
                  std::max(part.xmax, x + 1)};
        }
      if (count == 0) continue;
      ASSERT_LT(next, tile.boxes.size()) << tile.id;
      const Box& is = tile.boxes[next];
      EXPECT_NEAR(is.ymin * height, part.ymin, 1e-4);
      EXPECT_NEAR(is.xmin * width, part.xmin, 1e-4);
      EXPECT_NEAR(is.ymax * height, part.ymax, 1e-4);
      EXPECT_NEAR(is.xmax * width, part.xmax, 1e-4);
      EXPECT_NEAR(tile.area[next], count, 1e-2);
      const bool ignored = count < 0.4 * box.area();
      EXPECT_EQ(tile.weights[next], ignored ? 0 : 1) << tile.id << " box " << b;
      EXPECT_EQ(tile.is_crowd[next], ignored);
      EXPECT_EQ(tile.difficult[next], ignored);
      ++(ignored ? cut : objects);
      if (count == box.area()) found_whole[b] = true;
      ++next;
    }
    EXPECT_EQ(next, tile.boxes.size()) << tile.id;
  }
  EXPECT_TRUE(seen.all().item<bool>()) << "every pixel lies in a tile";
  EXPECT_EQ(result.num_cut, cut);
  EXPECT_EQ(result.num_objects, objects);
  EXPECT_EQ(result.num_whole, 0);
  int small = 0;
  for (size_t b = 0; b < boxes.size(); ++b) {
    const Whole& box = boxes[b];
    if (box.ymax - box.ymin > kSide / 4 || box.xmax - box.xmin > kSide / 4) continue;
    EXPECT_TRUE(found_whole[b]) << "no larger than the overlap, and whole in no tile: " << b;
    ++small;
  }
  EXPECT_GT(small, 0);
  EXPECT_GT(cut, 0);
}

TEST_F(TileRecords, TheWholePictureStandsBesideItsTilesByteForByte) {
  const std::string jpeg = encode_jpeg(gradient_image(40, 70));
  add("a.jpg", 40, 70, {{2, 3, 12, 13}}, jpeg);
  add("b.jpg", 32, 30, {}, encode_jpeg(gradient_image(32, 30)));  // no larger than a tile
  const CreateRecordsResult result = create_records(options(32, 0));
  EXPECT_EQ(result.num_whole, 2);
  EXPECT_EQ(result.num_tiles, 6);
  EXPECT_EQ(result.num_images, 2);
  EXPECT_EQ(result.num_objects, 2) << "of the picture and of its first tile";
  const std::vector<Example> all = examples(result);
  std::vector<std::string> ids, names;
  for (const Example& example : all) {
    ids.push_back(example.id);
    names.push_back(example.file_name);
  }
  EXPECT_THAT(ids, ElementsAre("a.jpg", "a.jpg_x0_y0", "a.jpg_x19_y0", "a.jpg_x38_y0", "a.jpg_x0_y8", "a.jpg_x19_y8",
                               "a.jpg_x38_y8", "b.jpg"));
  EXPECT_EQ(names[1], "a.jpg_x0_y0.jpg");
  EXPECT_TRUE(all[0].image.equal(decode_image(jpeg)));
  const at::Tensor part = decode_image(jpeg).narrow(0, 8, 32).narrow(1, 38, 32);
  const at::Tensor off = (all[6].image.to(at::kFloat) - part.to(at::kFloat)).abs();
  EXPECT_LT(off.mean().item<float>(), 2) << "of 255 levels, in a JPEG of quality 95";
  EXPECT_LT(off.max().item<float>(), 16);

  const std::vector<Example> tiles = examples(create_records(tiles_only(32, 0)));
  ASSERT_THAT(tiles, SizeIs(7));
  EXPECT_EQ(tiles.front().id, "a.jpg_x0_y0");
  EXPECT_EQ(tiles.back().id, "b.jpg") << "that needs no cutting";
}

TEST_F(TileRecords, APictureNoLargerThanATileIsWrittenAsWithoutTiles) {
  add_png("a.png", 30, 40, {{1, 2, 20, 30}});
  const std::string plain = read_file(create_records(options(0)).files[0]);
  EXPECT_EQ(read_file(create_records(options(40)).files[0]), plain);
  EXPECT_EQ(read_file(create_records(tiles_only(1000)).files[0]), plain);
}

TEST_F(TileRecords, TilesAreOfTheUprightPicture) {
  // Stored 30 wide and 60 high, annotated 60 x 30: seen turned to the right, as readers turn it, too.
  const at::Tensor stored = gradient_image(60, 30);
  add("a.jpg", 30, 60, {{3, 40, 13, 55}}, with_orientation(encode_jpeg(stored), 6));
  const std::vector<Example> tiles = examples(create_records(tiles_only(30, 0)));
  ASSERT_THAT(tiles, SizeIs(2));
  EXPECT_THAT(tiles[0].boxes, IsEmpty());
  ASSERT_THAT(tiles[1].boxes, SizeIs(1));
  EXPECT_NEAR(tiles[1].boxes[0].xmin * 30, 10, 1e-4);
  const at::Tensor part = upright(stored, 6).narrow(1, 30, 30);
  EXPECT_LT((tiles[1].image.to(at::kFloat) - part.to(at::kFloat)).abs().mean().item<float>(), 4);
}

TEST_F(TileRecords, BoxesOfAnotherAnnotatedSizeAreFractionsOfIt) {
  add_png("a.png", 40, 80, {});
  add("a.png", 80, 160, {{20, 100, 40, 140}}, encode_png(gradient_image(40, 80)));  // twice too large
  CreateRecordsResult result = create_records(tiles_only(40, 0));
  EXPECT_THAT(result.problems, ElementsAre(HasSubstr("1 picture(s) of another size than annotated")));
  const std::vector<Example> tiles = examples(result);
  ASSERT_THAT(tiles, SizeIs(2));
  ASSERT_THAT(tiles[1].boxes, SizeIs(1));
  EXPECT_EQ(tiles[1].boxes[0], (Box{.25f, .25f, .5f, .75f}));
  EXPECT_NEAR(tiles[1].area[0], 200, 1e-3);
}

TEST_F(TileRecords, AStripBelowAPixelIsLeftOutAndThresholdsAreExact) {
  // Tiles end at x = 20. Of the first box half a pixel reaches into the second tile, of the second exactly a half.
  write_file(dir_ / "voc/JPEGImages/a.png", encode_png(gradient_image(20, 40)));
  write_file(
      dir_ / "voc/Annotations/a.xml",
      "<annotation><filename>a.png</filename><size><width>40</width><height>20</height></size>"
      "<object><name>cat</name><bndbox><xmin>10</xmin><ymin>2</ymin><xmax>20.5</xmax><ymax>12</ymax></bndbox></object>"
      "<object><name>cat</name><bndbox><xmin>16</xmin><ymin>2</ymin><xmax>24</xmax><ymax>12</ymax></bndbox></object>"
      "</annotation>");
  CreateRecordsOptions request = tiles_only(20, 0);
  std::vector<Example> tiles = examples(create_records(request));
  EXPECT_THAT(tiles[0].weights, ElementsAre(1, 1));
  EXPECT_THAT(tiles[1].weights, ElementsAre(1)) << "a half is not less than a half";
  request.tiles.min_visible = 1;
  tiles = examples(create_records(request));
  EXPECT_THAT(tiles[0].weights, ElementsAre(0, 0));
  EXPECT_THAT(tiles[1].weights, ElementsAre(0));
  request.tiles.min_visible = 0;
  EXPECT_EQ(create_records(request).num_cut, 0);
}

TEST_F(TileRecords, BackgroundIsKeptAtItsShareAndDrawnByTheSeed) {
  for (int i = 0; i < 6; ++i) add_png(fmt::format("{}.png", i), 100, 100, {{1, 1, 9, 9}});  // one tile of 100 has it
  const auto kept = [&](double share, uint64_t seed = 0, int workers = 2) {
    CreateRecordsOptions request = tiles_only(10, 0);
    request.tiles.background = share;
    request.seed = seed;
    request.num_workers = workers;
    const CreateRecordsResult result = create_records(request);
    EXPECT_EQ(result.num_tiles + result.num_background, 600);
    EXPECT_EQ(result.num_objects, 6);
    return std::pair(result.num_tiles, read_file(result.files[0]));
  };
  EXPECT_EQ(kept(1).first, 600);
  EXPECT_EQ(kept(0).first, 6);
  // 594 draws of a quarter: 148.5 on average, with a standard deviation of 10.6.
  EXPECT_NEAR(static_cast<double>(kept(0.25).first), 6 + 148.5, 5 * 10.6);
  EXPECT_EQ(kept(0.25).second, kept(0.25, 0, 5).second);
  EXPECT_NE(kept(0.25).second, kept(0.25, 1).second);
}

TEST_F(TileRecords, SaysThatAllWasBackground) {
  add_png("a.png", 40, 40, {});
  write_file(dir_ / "map.pbtxt", "item { id: 1 name: 'cat' }");
  CreateRecordsOptions request = tiles_only(10, 0);
  request.tiles.background = 0;
  EXPECT_THAT([&] { create_records(request); },
              ThrowsMessage<DataError>(AllOf(HasSubstr("16 tiles have no objects"), HasSubstr("--tile_background"))));
}

TEST_F(TileRecords, ALabelMapWhoseObjectsAreAllCutHasClassesOfTheData) {
  add_png("a.png", 40, 40, {{0, 0, 40, 40}});
  write_file(dir_ / "map.pbtxt", "item { id: 1 name: 'cat' }");
  const CreateRecordsResult result = create_records(tiles_only(10, 0));
  EXPECT_EQ(result.num_objects, 0);
  EXPECT_EQ(result.num_cut, 16);
}

TEST_F(TileRecords, ShardsAndBytesDoNotDependOnWorkers) {
  for (int i = 0; i < 5; ++i) add_png(fmt::format("{}.png", i), 50 + 10 * i, 60, {{5, 5, 35, 35}});
  std::vector<std::string> first;
  for (const int workers : {1, 4}) {
    CreateRecordsOptions request = options(32);
    request.num_workers = workers;
    request.num_shards = 3;
    std::vector<std::string> shards;
    std::set<std::string> ids;
    const CreateRecordsResult result = create_records(request);
    for (const std::string& file : result.files) shards.push_back(read_file(file));
    for (const Example& example : examples(result)) EXPECT_TRUE(ids.insert(example.id).second) << example.id;
    EXPECT_EQ(static_cast<int64_t>(ids.size()), result.num_whole + result.num_tiles);
    for (const std::string& shard : shards) EXPECT_THAT(shard, SizeIs(Gt(1000u)));
    if (workers == 1) first = shards;
    EXPECT_EQ(shards, first);
  }
}

TEST_F(TileRecords, WhatIsWrongWithABoxIsCountedOncePerPicture) {
  add_png("a.png", 60, 60, {{5, 5, 35, 35}, {9, 9, 9, 30}, {40, 40, 30, 50}});
  write_file(dir_ / "map.pbtxt", "item { id: 1 name: 'cat' }");
  for (const bool whole : {true, false}) {
    CreateRecordsOptions request = whole ? options(32) : tiles_only(32);
    EXPECT_THAT(create_records(request).problems, ElementsAre(HasSubstr("1 box(es) left out, being empty"),
                                                              HasSubstr("1 box(es) left out, being inverted")));
  }
  write_file(dir_ / "map.pbtxt", "item { id: 1 name: 'dog' }");
  EXPECT_THAT([&] { create_records(options(32)); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("none of the classes"), HasSubstr("3 object(s) left out"))));
}

TEST_F(TileRecords, DamagedPicturesAndThoseOfTooManyTilesAreLeftOutByName) {
  add_png("a.png", 400, 400, {{1, 1, 9, 9}});
  add("b.png", 40, 40, {{1, 1, 9, 9}}, "no picture");
  EXPECT_THAT([&] { create_records(options(1, 0)); },
              ThrowsMessage<DataError>(AllOf(HasSubstr("none of 2 pictures"), HasSubstr("not to be cut"),
                                             HasSubstr("160000 tiles of 1 pixels"), HasSubstr("not decodable"))));
  EXPECT_THAT(create_records(options(100)).problems, Contains(HasSubstr("1 picture(s) left out, not decodable")));
}

TEST_F(TileRecords, OptionsOutOfRangeAreRefused) {
  add_png("a.png", 40, 40, {{1, 1, 9, 9}});
  const auto refused = [&](const char* words, auto change) {
    CreateRecordsOptions request = options(32);
    change(request.tiles);
    EXPECT_THAT([&] { create_records(request); }, ThrowsMessage<ConfigError>(HasSubstr(words)));
  };
  refused("--tile_size must be >= 1, got -5", [](RecordTiles& tiles) { tiles.side_px = -5; });
  refused("--tile_overlap must be in [0, 0.9], got 1", [](RecordTiles& tiles) { tiles.overlap = 1; });
  refused("--tile_overlap must be in [0, 0.9], got nan", [](RecordTiles& tiles) { tiles.overlap = std::nan(""); });
  refused("--tile_min_visible must be in [0, 1], got 1.5", [](RecordTiles& tiles) { tiles.min_visible = 1.5; });
  refused("--tile_background must be in [0, 1], got -0.1", [](RecordTiles& tiles) { tiles.background = -0.1; });
}

}  // namespace
}  // namespace osprey::data
