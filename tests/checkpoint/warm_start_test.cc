#include "osprey/checkpoint/warm_start.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "osprey/base/error.h"
#include "osprey/checkpoint/model_weights.h"
#include "support/temp_dir.h"
#include "support/toy_model.h"

namespace osprey::checkpoint {
namespace {

using osprey::testing::make_toy_model;
using osprey::testing::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// A checkpoint of the toy model in which every weight is `value`.
Checkpoint filled(double value, int64_t num_classes = 2) {
  Checkpoint content;
  for (const auto& [name, tensor] : models::variables(*make_toy_model({.num_classes = num_classes})))
    content.tensors["model/" + name] = at::full_like(tensor, value).detach();
  return content;
}

at::Tensor variable(models::DetectionModel& model, const std::string& wanted) {
  for (const auto& [name, tensor] : models::variables(model))
    if (name == wanted) return tensor.detach();
  throw std::runtime_error("no variable " + wanted);
}

TEST(WarmStart, DetectionLoadsEverythingThatFits) {
  const TempDir folder;
  write(folder / "c.osprey", filled(3));
  const auto model = make_toy_model();
  const WarmStartReport report = warm_start(folder / "c.osprey", *model, {.type = models::RestoreType::kDetection});
  EXPECT_EQ(report.parameters_loaded, report.parameters_total);
  EXPECT_TRUE(at::equal(variable(*model, "net.conv2_weights"), at::full({7, 6, 1, 1}, 3.0)));
  EXPECT_THAT(report.text(), AllOf(HasSubstr("6 variables loaded"), HasSubstr("100.0 %")));
}

TEST(WarmStart, ClassificationLeavesTheHeadAlone) {
  const TempDir folder;
  write(folder / "c.osprey", filled(3));
  const auto model = make_toy_model();
  const at::Tensor before = variable(*model, "net.conv2_weights").clone();
  const WarmStartReport report =
      warm_start(folder / "c.osprey", *model, {.type = models::RestoreType::kClassification});
  EXPECT_TRUE(at::equal(variable(*model, "net.conv2_weights"), before));
  EXPECT_TRUE(at::equal(variable(*model, "net.conv1_weights"), at::full({6, 3, 3, 3}, 3.0)));
  EXPECT_THAT(report.text(), HasSubstr("2 missing, 2 unused"));
}

TEST(WarmStart, AClassifiersNamesAndADetectorsAreBothFound) {
  const TempDir folder;
  const Checkpoint detector = filled(3);
  Checkpoint classifier = detector;
  classifier.tensors.clear();
  for (const auto& [name, tensor] : detector.tensors) {
    const std::string scope = "model/net.";
    classifier.tensors[name.starts_with(scope) ? "model/" + name.substr(scope.size()) : name] = tensor;
  }
  write(folder / "detector.osprey", detector);
  write(folder / "classifier.osprey", classifier);
  for (const char* file : {"detector.osprey", "classifier.osprey"}) {
    const auto model = make_toy_model();
    const WarmStartReport report = warm_start(folder / file, *model, {.type = models::RestoreType::kClassification});
    EXPECT_DOUBLE_EQ(report.backbone_coverage, 1) << file;
    EXPECT_TRUE(at::equal(variable(*model, "net.conv1_weights"), at::full({6, 3, 3, 3}, 3.0))) << file;
  }
}

TEST(WarmStart, HeadsOfAnotherNumberOfClassesAreListedWithBothShapes) {
  const TempDir folder;
  write(folder / "c.osprey", filled(3, /*num_classes=*/90));
  const auto model = make_toy_model();
  const WarmStartReport report = warm_start(folder / "c.osprey", *model, {});
  EXPECT_DOUBLE_EQ(report.backbone_coverage, 1);
  EXPECT_THAT(report.text(),
              AllOf(HasSubstr("2 with another shape"), HasSubstr("[95, 6, 1, 1]"), HasSubstr("[7, 6, 1, 1]")));
}

TEST(WarmStart, TooLittleOfTheBackboneIsAnErrorWithTheReport) {
  const TempDir folder;
  Checkpoint content = filled(3);
  content.tensors.erase("model/net.conv1_weights");
  content.tensors["model/other.kernel"] = at::zeros({2});
  write(folder / "c.osprey", content);
  const auto model = make_toy_model();
  const at::Tensor before = variable(*model, "net.conv2_weights").clone();
  try {
    warm_start(folder / "c.osprey", *model, {});
    FAIL() << "accepted";
  } catch (const CheckpointError& error) {
    // The backbone has 6*3*3*3 + 3*6 = 180 elements, of which 18 are found.
    EXPECT_THAT(error.what(), AllOf(HasSubstr("only 10.0 %"), HasSubstr("80.0 %"), HasSubstr("other.kernel"),
                                    HasSubstr("net.conv1_weights")));
    EXPECT_EQ(error.exit_code(), ExitCode::kUsage);
  }
  EXPECT_TRUE(at::equal(variable(*model, "net.conv2_weights"), before)) << "a refused checkpoint changes nothing";
  EXPECT_NO_THROW(warm_start(folder / "c.osprey", *model, {.min_coverage = 0.1}));
}

TEST(LoadModel, TakesTheAveragesWhereAsked) {
  Checkpoint content = filled(1);
  content.tensors["average/net.conv1_weights"] = at::full({6, 3, 3, 3}, 9.0);
  const auto model = make_toy_model();
  load_model(content, *model, false, "c");
  EXPECT_EQ(variable(*model, "net.conv1_weights").max().item<float>(), 1);
  load_model(content, *model, true, "c");
  EXPECT_EQ(variable(*model, "net.conv1_weights").min().item<float>(), 9);
  EXPECT_EQ(variable(*model, "net.conv2_weights").max().item<float>(), 1);
}

TEST(LoadModel, ACheckpointOfAnotherModelIsRefusedWithTheDifferences) {
  Checkpoint content = filled(1, 5);
  content.tensors.erase("model/net.moving_mean");
  content.tensors["model/extra"] = at::zeros({1});
  const auto model = make_toy_model();
  try {
    load_model(content, *model, false, "some/ckpt-1.osprey");
    FAIL() << "accepted";
  } catch (const CheckpointError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("some/ckpt-1.osprey"), HasSubstr("4 variables differ"),
                      HasSubstr("[10, 6, 1, 1] in the checkpoint, [7, 6, 1, 1]"),
                      HasSubstr("net.moving_mean: not in the checkpoint"), HasSubstr("extra: [1] in the checkpoint")));
  }
}

}  // namespace
}  // namespace osprey::checkpoint
