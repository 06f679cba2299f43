// The sections of golden/tf_primitives.json that concern boxes: suppression and the order of equal scores.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>

#include "osprey/boxes/non_max_suppression.h"
#include "support/golden.h"

namespace osprey::boxes {
namespace {

using nlohmann::json;
using osprey::testing::expect_close;
using osprey::testing::tensor;

/// Who reads each section; this test is the one that notices a section without a reader.
const std::map<std::string, std::string> kReaders = {
    {"nms_v5", "boxes"},   {"top_k_ties", "boxes"}, {"fused_batch_norm_training", "nn"}, {"conv", "nn"}, {"pool", "nn"},
    {"activations", "nn"}, {"resize", "data"},      {"clip_by_global_norm", "optim"},
};

TEST(TfPrimitivesGolden, EverySectionHasAReader) {
  for (const auto& file : osprey::testing::golden_files("tf_primitives.json")) {
    const json golden = osprey::testing::read_json(file);
    for (const auto& [key, value] : golden.items())
      EXPECT_TRUE(kReaders.count(key) > 0 || value.is_string()) << "nobody reads '" << key << "' of " << file;
  }
}

TEST(TfPrimitivesGolden, SuppressionAgrees) {
  for (const auto& file : osprey::testing::golden_files("tf_primitives.json")) {
    const json golden = osprey::testing::read_json(file);
    if (!golden.contains("nms_v5")) continue;
    const json& section = golden.at("nms_v5");
    const at::Tensor boxes = tensor(section.at("boxes")), scores = tensor(section.at("scores"));
    for (const json& c : section.at("cases")) {
      const Kept kept = non_max_suppression(boxes, scores, boxes.size(0), c.at("iou").get<float>(),
                                            c.at("score_threshold").get<float>(), c.at("soft_nms_sigma").get<float>());
      EXPECT_EQ(kept.indices, c.at("indices").get<std::vector<int64_t>>()) << c;
      expect_close(at::tensor(kept.scores), tensor(c.at("scores")).reshape({-1}), 1e-5, 0, c.dump());
    }
  }
}

TEST(TfPrimitivesGolden, EqualScoresKeepTheirOrder) {
  for (const auto& file : osprey::testing::golden_files("tf_primitives.json")) {
    const json golden = osprey::testing::read_json(file);
    if (!golden.contains("top_k_ties")) continue;
    const json& section = golden.at("top_k_ties");
    const at::Tensor scores = tensor(section.at("in"));
    // Boxes that do not touch: the suppression keeps all and so only sorts.
    const at::Tensor place = at::arange(scores.size(0), at::kFloat);
    const at::Tensor boxes = at::stack({place, place, place + 0.5, place + 0.5}, 1);
    const Kept kept = non_max_suppression(boxes, scores, scores.size(0), 0.5f, 0);
    EXPECT_EQ(kept.indices, section.at("indices").get<std::vector<int64_t>>());
    EXPECT_EQ(kept.scores, section.at("values").get<std::vector<float>>());
  }
}

}  // namespace
}  // namespace osprey::boxes
