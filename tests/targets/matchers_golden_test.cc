// Every case of golden/matchers.json: arg-max, bipartite, similarities.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "osprey/boxes/geometry.h"
#include "osprey/config/parse.h"
#include "osprey/protos/matcher.pb.h"
#include "osprey/protos/region_similarity_calculator.pb.h"
#include "osprey/targets/builder.h"
#include "support/golden.h"

namespace osprey::targets {
namespace {

using nlohmann::json;
using osprey::testing::expect_close;
using osprey::testing::tensor;

/// The matrix of a name. An empty one keeps its width only in the name: "..._0x7".
at::Tensor similarity_named(const json& golden, const std::string& name) {
  const json& values = golden.at("similarity_matrices").at(name);
  if (!values.empty()) return tensor(values);
  return at::zeros({0, std::stoll(name.substr(name.rfind('x') + 1))});
}

at::Tensor flags(const json& values) { return values.empty() ? at::ones({0}, at::kBool) : tensor(values, at::kBool); }

at::Tensor matched(const std::string& config, const at::Tensor& similarity, const at::Tensor& enabled) {
  const auto parsed = config::parse<proto::Matcher>(config);
  return build_matcher(parsed.node())->match(similarity, enabled);
}

void check_argmax(const json& golden, const std::string& file) {
  for (const json& c : golden.at("results")) {
    const at::Tensor match = matched(c.at("config"), similarity_named(golden, c.at("sim")), flags(c.at("valid_rows")));
    EXPECT_TRUE(at::equal(match, tensor(c.at("match"), at::kLong))) << file << " " << c << " got " << match;
  }
}

/// The original numbers the rows after moving the disabled ones to the end, which gives an anchor the wrong box where a
/// disabled row comes before an enabled one. Ours are the rows as they came.
void check_bipartite(const json& golden, const std::string& file) {
  for (const json& c : golden.at("bipartite_results")) {
    const at::Tensor enabled = flags(c.at("valid_rows"));
    const at::Tensor order = at::cat({enabled.nonzero().flatten(), enabled.logical_not().nonzero().flatten()});
    const at::Tensor golden_match = tensor(c.at("match"), at::kLong);
    const at::Tensor expected =
        at::where(golden_match >= 0, order.index_select(0, golden_match.clamp_min(0)), golden_match);
    const at::Tensor match = matched("bipartite_matcher {}", similarity_named(golden, c.at("sim")), enabled);
    EXPECT_TRUE(at::equal(match, expected)) << file << " " << c << " got " << match;
  }
}

void check_similarity(const json& section, const std::string& file) {
  const at::Tensor a = tensor(section.at("boxes1")), b = tensor(section.at("boxes2")),
                   scores = tensor(section.at("scores1"));
  const auto compare = [&](const std::string& config) {
    const auto parsed = config::parse<proto::RegionSimilarityCalculator>(config);
    return build_region_similarity(parsed.node())->compare(a, b, scores);
  };
  const std::string thresholded = "thresholded_iou_";
  for (const auto& [key, value] : section.items()) {
    if (key == "boxes1" || key == "boxes2" || key == "scores1" || value.is_string()) continue;
    at::Tensor actual;
    if (key == "iou") actual = compare("iou_similarity {}");
    if (key == "ioa") actual = compare("ioa_similarity {}");
    if (key == "neg_sq_dist") actual = compare("neg_sq_dist_similarity {}");
    if (key.rfind(thresholded, 0) == 0)
      actual = compare("thresholded_iou_similarity { iou_threshold: " + key.substr(thresholded.size()) + " }");
    if (key == "giou_pairwise") actual = boxes::giou(a, b);
    if (key == "l1_pairwise") actual = boxes::l1(a, b);
    if (key == "matched_iou_first5")
      actual = boxes::iou(a.slice(0, 0, 5).unsqueeze(1), b.slice(0, 0, 5).unsqueeze(1)).flatten();
    if (!actual.defined()) {
      ADD_FAILURE() << "nobody reads similarity '" << key << "' of " << file;
      continue;
    }
    // The squared distance of equal boxes is a difference of nearly equal numbers.
    expect_close(actual, tensor(value), 1e-5, 1e-6, file + " " + key);
  }
}

TEST(MatchersGolden, EveryCaseAgrees) {
  const auto files = osprey::testing::golden_files("matchers.json");
  ASSERT_FALSE(files.empty());
  for (const auto& path : files) {
    const std::string file = path.filename().string();
    const json golden = osprey::testing::read_json(path);
    for (const auto& [key, value] : golden.items()) {
      if (key == "results") {
        check_argmax(golden, file);
      } else if (key == "bipartite_results") {
        check_bipartite(golden, file);
      } else if (key == "similarity") {
        check_similarity(value, file);
      } else if (key != "similarity_matrices" && !value.is_string()) {
        ADD_FAILURE() << "nobody reads '" << key << "' of " << file;
      }
    }
  }
}

}  // namespace
}  // namespace osprey::targets
