#include "osprey/train/progress_hook.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "osprey/kernels/device.h"
#include "train/toy_run.h"

namespace osprey::train {
namespace {

using osprey::testing::make_toy_source;
using osprey::testing::ToyRun;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Steps of a toy run that a hook watches, which writes every third; its numbers stand in the same tensors every time,
/// as those of a recorded step do.
class WatchedRun {
 public:
  WatchedRun() {
    result_.losses = {{"Loss/total_loss", at::zeros({})}};
    result_.gradient_norm = at::zeros({});
  }
  void step(bool last = false) {
    ++toy_.state.step;
    result_.losses[0].value.fill_(toy_.state.step);
    result_.gradient_norm.fill_(10 * toy_.state.step);
    hook_.after_step({toy_.state, result_, batch_, 4, 0.5, 2, last});
  }
  void evaluate() { hook_.after_evaluation({toy_.state, {}, 1}); }
  std::vector<int64_t> written() const {
    std::vector<int64_t> steps;
    for (const LogRecord& record : records_) {
      EXPECT_EQ(record.losses.back().second, record.step);
      EXPECT_EQ(record.gradient_norm, 10 * record.step);
      EXPECT_EQ(record.seconds_per_step, 2);
      EXPECT_EQ(record.images_per_second, 2);
      EXPECT_EQ(record.data_wait, 0.25);
      steps.push_back(record.step);
    }
    return steps;
  }

 private:
  ToyRun toy_{{}};
  Batch batch_ = *make_toy_source(1)->next();
  StepResult result_;
  std::vector<LogRecord> records_;
  ProgressHook hook_{3, 0, {[this](const LogRecord& record) { records_.push_back(record); }}};
};

TEST(ProgressHook, WritesEveryFewStepsAndAfterTheLast) {
  WatchedRun run;
  for (int i = 0; i < 7; ++i) run.step();
  EXPECT_THAT(run.written(), ElementsAre(3, 6));
  run.step(/*last=*/true);
  EXPECT_THAT(run.written(), ElementsAre(3, 6, 8));
}

TEST(ProgressHook, TheNumbersOfADeviceComeAStepLater) {
  const kernels::device::Emulation emulation;
  WatchedRun run;
  for (int i = 0; i < 3; ++i) run.step();
  EXPECT_THAT(run.written(), IsEmpty());
  run.step();
  EXPECT_THAT(run.written(), ElementsAre(3)) << "with the values of step 3";
  run.step();
  run.step();
  run.evaluate();
  EXPECT_THAT(run.written(), ElementsAre(3, 6)) << "before what an evaluation says";
  run.step(/*last=*/true);
  EXPECT_THAT(run.written(), ElementsAre(3, 6, 7));
}

}  // namespace
}  // namespace osprey::train
