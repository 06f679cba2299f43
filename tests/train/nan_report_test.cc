#include "osprey/train/nan_report.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "osprey/checkpoint/directory.h"
#include "support/golden.h"
#include "support/temp_dir.h"
#include "train/toy_run.h"

namespace osprey::train {
namespace {

using osprey::testing::make_toy_source;
using osprey::testing::TempDir;
using osprey::testing::ToyRun;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

void poison(models::DetectionModel& model, const std::string& variable) {
  const at::NoGradGuard no_gradients;
  for (const auto& [name, tensor] : models::variables(model))
    if (name == variable) at::Tensor(tensor).flatten()[0] = std::nanf("");
}

TEST(NanReport, NamesTheFirstLayerThatIsNotFinite) {
  const Batch batch = *make_toy_source(2)->next();
  {
    ToyRun toy({});
    EXPECT_EQ(first_non_finite(*toy.state.model, batch, {}).operation, "");
  }
  for (const char* layer : {"net.conv1_weights", "net.conv2_weights"}) {
    ToyRun toy({});
    poison(*toy.state.model, layer);
    const NonFinite found = first_non_finite(*toy.state.model, batch, {});
    EXPECT_EQ(found.layer, layer) << "in " << found.operation;
  }
}

/// Memory as the allocator before it hands it out, every float of it NaN.
class NanAllocator : public c10::Allocator {
 public:
  explicit NanAllocator(c10::Allocator& inner) : inner_(inner) {}
  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr memory = inner_.allocate(bytes);
    if (bytes > 0) std::memset(memory.get(), 0xff, bytes);
    return memory;
  }
  c10::DeleterFnPtr raw_deleter() const override { return inner_.raw_deleter(); }
  void copy_data(void* to, const void* from, size_t bytes) const override { inner_.copy_data(to, from, bytes); }

 private:
  c10::Allocator& inner_;
};

/// While it lives, all memory comes so.
class NanMemory {
 public:
  NanMemory() : before_(*c10::GetCPUAllocator()), allocator_(before_) { c10::SetCPUAllocator(&allocator_); }
  ~NanMemory() { c10::SetCPUAllocator(&before_); }
  NanMemory(const NanMemory&) = delete;
  NanMemory& operator=(const NanMemory&) = delete;

 private:
  c10::Allocator& before_;
  NanAllocator allocator_;
};

TEST(NanReport, IsNotMisledByMemoryThatNothingHasWritten) {
  const Batch batch = *make_toy_source(2)->next();
  const NanMemory memory;
  ASSERT_TRUE(at::empty({1}).isnan().item<bool>());
  {
    ToyRun toy({});
    const NonFinite found = first_non_finite(*toy.state.model, batch, {});
    EXPECT_EQ(found.operation, "") << found.layer;
  }
  ToyRun toy({});
  poison(*toy.state.model, "net.conv2_weights");
  EXPECT_EQ(first_non_finite(*toy.state.model, batch, {}).layer, "net.conv2_weights");
}

TEST(NanReport, NamesTheVariableThatIsNotFiniteOfThoseOfAnOperation) {
  const Batch batch = *make_toy_source(2)->next();
  for (const char* name : {"net.conv2_weights", "net.conv2_biases"}) {
    ToyRun toy({});
    poison(*toy.state.model, name);
    EXPECT_EQ(first_non_finite(*toy.state.model, batch, {}).layer, name);
  }
}

TEST(NanReport, HoldsWhatIsNeededToFindTheCause) {
  const TempDir folder;
  ToyRun toy({});
  const auto source = make_toy_source(2);
  checkpoint::Directory(folder.path(), {}).save(0, snapshot(toy.state), 0);
  poison(*toy.state.model, "net.conv2_weights");
  const Batch batch = *source->next();
  const StepResult result = train_step(toy.state, batch, *toy.gradients, {});
  ASSERT_FALSE(result.ok());
  const auto [report_folder, summary] = write_nan_report(toy.state, batch, result, {folder.path(), {"cat", "dog"}, {}});
  EXPECT_EQ(report_folder, folder / "nan_report");
  EXPECT_THAT(summary, AllOf(HasSubstr("not finite: Loss/"), HasSubstr("Loss/localization_loss"),
                             HasSubstr("not finite: net.conv2_weights (aten::"),
                             HasSubstr("last finite checkpoint: " + (folder / "ckpt-0.osprey"))));
  const auto report = osprey::testing::read_json(report_folder / "report.json");
  EXPECT_EQ(report["step"], 0);
  EXPECT_EQ(report["message"], "LossTensor is inf or nan.");
  EXPECT_NEAR(report["learning_rate"].get<double>(), 0.02, 1e-7);
  EXPECT_EQ(report["losses"]["Loss/total_loss"], "nan");
  EXPECT_THAT(report["non_finite_losses"].get<std::vector<std::string>>(), Contains("Loss/localization_loss"));
  EXPECT_EQ(report["first_non_finite_layer"], "net.conv2_weights");
  EXPECT_THAT(report["non_finite_variables"].get<std::vector<std::string>>(), Contains("net.conv2_weights"));
  EXPECT_EQ(report["images"][1]["id"], "toy-1");
  EXPECT_EQ(report["images"][0]["boxes"][0]["box"].size(), 4u);
  EXPECT_THAT(report["last_finite_checkpoint"].get<std::string>(), HasSubstr("ckpt-0"));
  EXPECT_GT(std::filesystem::file_size(report_folder / "image_1.png"), 50u);
}

TEST(NanReport, NamesTheCheckpointBeforeTheFirstOfSeveralBadBatches) {
  const TempDir folder;
  ToyRun toy({});
  checkpoint::Directory checkpoints(folder.path(), {});
  for (const int64_t step : {2, 4, 5}) checkpoints.save(step, snapshot(toy.state), 0);
  const Batch batch = *make_toy_source(2)->next();
  poison(*toy.state.model, "net.conv2_weights");
  const StepResult result = train_step(toy.state, batch, *toy.gradients, {});
  const auto last = [&](const SkippedBatches& skipped) {
    toy.state.step = 5;
    toy.state.skipped = skipped;
    return write_nan_report(toy.state, batch, result, {folder.path(), {"cat", "dog"}, {}}).summary;
  };
  EXPECT_THAT(last({}), HasSubstr("ckpt-5.osprey"));
  EXPECT_THAT(last({.total = 9, .in_a_row = 2, .last_step = 4}), HasSubstr("ckpt-2.osprey")) << "3 and 4 were bad";
  EXPECT_THAT(last({.total = 9, .in_a_row = 2, .last_step = 3}), HasSubstr("ckpt-5.osprey")) << "4 was not";
  checkpoints.save(5, snapshot(toy.state), 0);
  EXPECT_THAT(last({}), HasSubstr("ckpt-4.osprey")) << "5 now has weights that are not finite";
}

}  // namespace
}  // namespace osprey::train
