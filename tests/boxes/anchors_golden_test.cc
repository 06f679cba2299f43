// Every case of golden/anchors/*.json, for each of the four generators.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "osprey/boxes/builder.h"
#include "osprey/config/parse.h"
#include "osprey/protos/anchor_generator.pb.h"
#include "support/golden.h"

namespace osprey::boxes {
namespace {

using nlohmann::json;
using osprey::testing::expect_close;
using osprey::testing::tensor;

void check_anchors(const json& c, const std::string& what) {
  const auto parsed = config::parse<proto::AnchorGenerator>(c.at("config").get<std::string>(), what);
  const auto generator = build_anchor_generator(parsed.node());
  std::vector<FeatureMapShape> shapes;
  for (const json& shape : c.at("feature_map_shapes")) shapes.push_back({shape[0], shape[1]});
  // null: the original was not told the image's shape, which it takes for 1 x 1.
  const json& image = c.at("image_shape_hw");
  const int64_t height = image.is_null() ? 1 : image[0].get<int64_t>(),
                width = image.is_null() ? 1 : image[1].get<int64_t>();

  const at::Tensor anchors = generator->generate(shapes, height, width);
  const int64_t total = c.at("num_anchors");
  ASSERT_EQ(anchors.sizes(), at::IntArrayRef({total, 4})) << what;
  const auto per_location = generator->num_anchors_per_location();
  EXPECT_EQ(per_location, c.at("num_anchors_per_location").get<std::vector<int64_t>>()) << what;
  std::vector<int64_t> per_map;
  for (size_t i = 0; i < shapes.size(); ++i) per_map.push_back(shapes[i][0] * shapes[i][1] * per_location.at(i));
  EXPECT_EQ(per_map, c.at("anchors_per_map").get<std::vector<int64_t>>()) << what;

  // Corners near 0 are differences of float32 numbers of the size of the largest anchor.
  const double absolute = 1e-6 * anchors.abs().max().item<double>();
  const auto check = [&](const at::Tensor& actual, const char* key) {
    expect_close(actual, tensor(c.at(key)), 1e-5, absolute, what + " " + key);
  };
  check(anchors.slice(0, 0, 20), "first20");
  check(anchors.slice(0, -20), "last20");
  if (c.contains("all")) check(anchors, "all");
  const at::Tensor exact = anchors.to(at::kDouble);
  expect_close(exact.sum(0), tensor(c.at("sum"), at::kDouble), 1e-5, absolute * static_cast<double>(total),
               what + " sum");
  expect_close(exact.square().sum(0), tensor(c.at("sum_sq"), at::kDouble), 1e-5, absolute, what + " sum_sq");
}

TEST(AnchorsGolden, EveryCaseAgrees) {
  for (const char* name : {"ssd", "multiscale", "grid", "flexible_grid"}) {
    const auto files = osprey::testing::golden_files(std::string("anchors/") + name + ".json");
    ASSERT_FALSE(files.empty());
    for (const auto& file : files) {
      const json golden = osprey::testing::read_json(file);
      for (const auto& [key, value] : golden.items())
        EXPECT_TRUE(key == "cases" || value.is_string()) << "nobody reads '" << key << "' of " << file;
      ASSERT_FALSE(golden.at("cases").empty());
      for (const json& c : golden.at("cases"))
        check_anchors(c, file.filename().string() + " " + c.at("name").get<std::string>());
    }
  }
}

TEST(AnchorsGolden, NoFileIsLeftOut) {
  if (!osprey::testing::test_data()) GTEST_SKIP() << osprey::testing::kNoTestData;
  for (const auto& entry : std::filesystem::directory_iterator(*osprey::testing::test_data() / "golden" / "anchors")) {
    const std::string name = entry.path().stem().string();
    EXPECT_TRUE(name == "ssd" || name == "multiscale" || name == "grid" || name == "flexible_grid")
        << "nobody reads " << entry.path();
  }
}

}  // namespace
}  // namespace osprey::boxes
