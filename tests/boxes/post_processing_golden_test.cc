// Every case of golden/post_processing.json: suppression, score converters, calibration.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "osprey/boxes/builder.h"
#include "osprey/config/parse.h"
#include "osprey/protos/post_processing.pb.h"
#include "support/golden.h"

namespace osprey::boxes {
namespace {

using nlohmann::json;
using osprey::testing::expect_close;
using osprey::testing::tensor;

at::Tensor boxes_named(const json& inputs, const std::string& name) {
  const at::Tensor boxes = tensor(inputs.at("boxes_" + name));
  return boxes.size(2) == 1 ? boxes.squeeze(2) : boxes;
}

/// The place of a row in the order of scores [A]. The original's partitioned suppression sorts the boxes but not the
/// additional fields, so that it returns places where the fields of the boxes are expected.
int64_t place(const at::Tensor& own, int64_t row) {
  return (own > own[row]).sum().item<int64_t>() + (own.slice(0, 0, row) == own[row]).sum().item<int64_t>();
}

void check_post_processing(const json& inputs, const json& c, const std::string& what) {
  const auto parsed = config::parse<proto::BatchNonMaxSuppression>(c.at("config").get<std::string>(), what);
  const NmsOptions options = build_nms_options(parsed.node());
  const at::Tensor scores = tensor(inputs.at("scores"));
  const std::string window = c.at("clip_window");
  const at::Tensor clip_window = window == "none" ? at::Tensor() : tensor(inputs.at("windows").at(window));
  const at::Tensor num_valid =
      c.at("num_valid_boxes").is_null() ? at::Tensor() : tensor(c.at("num_valid_boxes"), at::kLong);
  const NmsResult result =
      batch_non_max_suppression(boxes_named(inputs, c.at("boxes")), scores, options, clip_window, num_valid);

  const at::Tensor count = tensor(c.at("num_detections"), at::kLong);
  ASSERT_TRUE(at::equal(result.detections.count, count))
      << what << ": " << result.detections.count << " detections, expected " << count;
  expect_close(result.detections.scores, tensor(c.at("nmsed_scores")), 1e-5, 1e-7, what + " scores");
  const at::Tensor boxes = tensor(c.at("nmsed_boxes")), classes = tensor(c.at("nmsed_classes"));
  for (int64_t b = 0; b < count.size(0); ++b) {
    // With static shapes the padded rows of the original hold copies of some box; ours are zero in every mode.
    const int64_t real = count[b].item<int64_t>(), rows = parsed.message->use_static_shapes() ? real : boxes.size(1);
    const auto head = [&](const at::Tensor& t) { return t[b].slice(0, 0, rows); };
    expect_close(head(result.detections.boxes), head(boxes), 1e-5, 1e-6, what + " boxes");
    expect_close(head(result.detections.classes), head(classes), 0, 0, what + " classes");
    EXPECT_TRUE(at::equal(result.detections.boxes[b].slice(0, real), at::zeros({boxes.size(1) - real, 4})))
        << what << ": padding";
    if (!c.contains("nmsed_idx_field")) continue;
    const at::Tensor field = tensor(c.at("nmsed_idx_field"));  // 100 * image + row, twice
    for (int64_t i = 0; i < real; ++i) {
      int64_t row = result.indices[b][i].item<int64_t>();
      if (parsed.message->use_partitioned_nms()) {
        const at::Tensor valid = num_valid.defined() ? scores[b].slice(0, 0, num_valid[b].item<int64_t>()) : scores[b];
        row = place(parsed.message->use_class_agnostic_nms()
                        ? valid.amax(-1)
                        : valid.select(-1, result.detections.classes[b][i].item<int64_t>()),
                    row);
      }
      for (int64_t k = 0; k < field.size(2); ++k)
        EXPECT_EQ(field[b][i][k].item<int64_t>(), 100 * b + row) << what << " field of detection " << i;
    }
  }
}

void check_scores(const json& c, const std::string& file) {
  const std::string text = c.at("config") == "(defaults)" ? "" : c.at("config").get<std::string>();
  const auto parsed = config::parse<proto::PostProcessing>(text, file);
  const ScoreOptions options = build_post_processor(parsed.node()).scores();
  expect_close(convert_scores(tensor(c.at("in")), options), tensor(c.at("out")), 1e-5, 1e-7, file + " " + text);
}

TEST(PostProcessingGolden, EveryCaseAgrees) {
  const auto files = osprey::testing::golden_files("post_processing.json");
  ASSERT_FALSE(files.empty());
  for (const auto& file : files) {
    const json golden = osprey::testing::read_json(file);
    for (const auto& [key, value] : golden.items()) {
      const std::string name = file.filename().string() + " " + key;
      if (key == "nms_cases") {
        for (const json& c : value)
          check_post_processing(golden.at("inputs"), c, name + " " + c.at("name").get<std::string>());
      } else if (key == "score_converters" || key == "calibration") {
        for (const json& c : value) check_scores(c, name);
      } else if (key != "inputs" && !value.is_string()) {
        ADD_FAILURE() << "nobody reads " << name;
      }
    }
  }
}

}  // namespace
}  // namespace osprey::boxes
