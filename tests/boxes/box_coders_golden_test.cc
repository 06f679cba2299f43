// Every case of golden/box_coders.json, for each of the four coders.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "osprey/boxes/builder.h"
#include "osprey/config/parse.h"
#include "osprey/protos/box_coder.pb.h"
#include "support/golden.h"

namespace osprey::boxes {
namespace {

using nlohmann::json;
using osprey::testing::expect_close;
using osprey::testing::tensor;

constexpr double kRelative = 1e-5;

void check_coder(const json& c, const std::string& what) {
  // The one case without a config is the Faster R-CNN coder without scale factors, which is all of them 1.
  std::string text = "faster_rcnn_box_coder { y_scale: 1 x_scale: 1 height_scale: 1 width_scale: 1 }";
  if (c.contains("config")) {
    text = c.at("config");
  } else if (c.at("name") != "faster_rcnn_no_scale_factors") {
    FAIL() << what << ": has no config, and its name is not known";
  }
  const auto parsed = config::parse<proto::BoxCoder>(text, what);
  const auto coder = build_box_coder(parsed.node());
  ASSERT_EQ(coder->code_size(), c.at("code_size").get<int64_t>()) << what;

  const at::Tensor boxes = tensor(c.at("boxes")), anchors = tensor(c.at("anchors"));
  const at::Tensor keypoints = c.contains("keypoints") ? tensor(c.at("keypoints")) : at::Tensor();
  // A centre that hits the anchor's is a difference of nearly equal float32 numbers, of the size of the box.
  const double absolute = 1e-5 * anchors.abs().max().item<double>();
  const at::Tensor encoded = coder->encode(boxes, anchors, keypoints);
  expect_close(encoded, tensor(c.at("encoded")), kRelative, 1e-4, what + " encoded");
  expect_close(coder->decode(tensor(c.at("encoded")), anchors), tensor(c.at("decoded")), kRelative, absolute,
               what + " decoded");
  if (c.contains("decoded_keypoints"))
    expect_close(coder->decode_keypoints(tensor(c.at("encoded")), anchors), tensor(c.at("decoded_keypoints")),
                 kRelative, absolute, what + " decoded keypoints");
  if (c.contains("random_codes"))
    expect_close(coder->decode(tensor(c.at("random_codes")), anchors), tensor(c.at("random_decoded")), kRelative,
                 absolute, what + " random codes");
}

TEST(BoxCodersGolden, EveryCaseAgrees) {
  const auto files = osprey::testing::golden_files("box_coders.json");
  ASSERT_FALSE(files.empty());
  for (const auto& file : files) {
    const json golden = osprey::testing::read_json(file);
    for (const auto& [key, value] : golden.items())
      EXPECT_TRUE(key == "cases" || value.is_string()) << "nobody reads '" << key << "' of " << file;
    ASSERT_FALSE(golden.at("cases").empty());
    for (const json& c : golden.at("cases"))
      check_coder(c, file.filename().string() + " " + c.at("name").get<std::string>() + " scale " +
                         c.value("scale", json(1)).dump());
  }
}

}  // namespace
}  // namespace osprey::boxes
