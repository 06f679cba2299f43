#include "osprey/train/summary_hook.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <limits>
#include <map>
#include <set>

#include "osprey/kernels/device.h"
#include "support/event_file.h"
#include "support/temp_dir.h"
#include "train/toy_run.h"

namespace osprey::train {
namespace {

using osprey::testing::make_toy_source;
using osprey::testing::TempDir;
using osprey::testing::ToyRun;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Steps of a toy run that a hook watches; all weights are the number of the step.
class SummarizedRun {
 public:
  /// every_seconds  as the hook has it
  explicit SummarizedRun(double every_seconds) : summaries_(events_, every_seconds, {}) {}

  void step(bool last = false) {
    const at::NoGradGuard no_gradients;
    ++toy_.state.step;
    for (at::Tensor& parameter : toy_.state.model->parameters()) parameter.fill_(toy_.state.step);
    summaries_.after_step({toy_.state, result_, batch_, 4, 0.5, 2, last});
  }
  /// The steps of which something has been written; histograms have the weights of that step.
  std::set<int64_t> written() {
    events_.flush();
    std::set<int64_t> steps;
    std::map<std::string, int> kinds;
    for (const records::Event& event : testing::read_events(events_.path()))
      for (const records::Summary::Value& value : event.summary().value()) {
        steps.insert(event.step());
        ++kinds[value.has_histo() ? "histogram" : "picture"];
        if (value.has_histo() && parameters_.contains(value.tag())) {
          EXPECT_EQ(value.histo().min(), event.step()) << value.tag();
          EXPECT_EQ(value.histo().max(), event.step()) << value.tag();
        }
      }
    const auto times = static_cast<int>(steps.size());
    EXPECT_EQ(kinds["histogram"], times * static_cast<int>(models::variables(*toy_.state.model).size()));
    EXPECT_EQ(kinds["picture"], times * 3);
    return steps;
  }

 private:
  TempDir folder_;
  eval::EventWriter events_{folder_.path().string()};
  SummaryHook summaries_;
  ToyRun toy_{{}};
  std::set<std::string> parameters_ = [this] {
    std::set<std::string> names;
    for (const auto& item : toy_.state.model->named_parameters()) names.insert(item.key());
    return names;
  }();
  Batch batch_ = *make_toy_source(4)->next();
  StepResult result_;
};

constexpr double kEveryStep = 1e-9, kOnce = 1e9;

TEST(SummaryHook, WritesEverySoManySeconds) {
  SummarizedRun often(kEveryStep), once(kOnce), never(0);
  for (int i = 0; i < 3; ++i)
    for (SummarizedRun* run : {&often, &once, &never}) run->step();
  EXPECT_THAT(often.written(), ElementsAre(1, 2, 3));
  EXPECT_THAT(once.written(), ElementsAre(1));
  EXPECT_THAT(never.written(), IsEmpty());
}

TEST(SummaryHook, WhatADeviceCountsComesAStepLater) {
  const kernels::device::Emulation emulation;
  SummarizedRun run(kEveryStep);
  run.step();
  EXPECT_THAT(run.written(), IsEmpty());
  run.step();
  EXPECT_THAT(run.written(), ElementsAre(1)) << "with the weights of step 1";
  run.step(/*last=*/true);
  EXPECT_THAT(run.written(), ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace osprey::train
