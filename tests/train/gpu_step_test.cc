// Training steps on a GPU. Without one these tests are skipped, and say so.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <string>

#include "../src/train/assembly.h"
#include "../src/train/device_feed.h"
#include "../src/train/lagging_copy.h"
#include "../src/train/step_graph.h"
#include "../src/train/training_source.h"
#include "osprey/base/error.h"
#include "osprey/train/progress_hook.h"
#include "osprey/train/replicas.h"
#include "osprey/train/summary_hook.h"
#include "support/golden.h"
#include "support/temp_dir.h"
#include "train/poisoned_source.h"

#ifdef OSPREY_HAS_NVCC
#include <c10/cuda/CUDAFunctions.h>

namespace osprey::train {
namespace {

class GpuStep : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "no GPU here";
  }
};

/// While it lives, whatever waits for the GPU throws.
class NothingWaits {
 public:
  NothingWaits() { c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_ERROR); }
  ~NothingWaits() { c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_DISABLED); }
  NothingWaits(const NothingWaits&) = delete;
  NothingWaits& operator=(const NothingWaits&) = delete;
};

const JobOptions kOnGpu{.device = "cuda", .use_fake_data = true};

/// While it lives, cuDNN takes the same ways every time, of which each gives the same bits every time. Otherwise it
/// tries which are the fastest, of which there may be others in the next run.
class SameWays {
 public:
  SameWays() { set(/*search=*/false, /*deterministic=*/true); }
  ~SameWays() { set(search_, deterministic_); }
  SameWays(const SameWays&) = delete;
  SameWays& operator=(const SameWays&) = delete;

 private:
  static void set(bool search, bool deterministic) {
    at::globalContext().setBenchmarkCuDNN(search);
    at::globalContext().setDeterministicCuDNN(deterministic);
  }
  bool search_ = at::globalContext().benchmarkCuDNN(), deterministic_ = at::globalContext().deterministicCuDNN();
};

// Where numbers are compared batch norm is frozen: its small last maps make a thousand of a difference of 1e-7, which
// the order of sums on a GPU may make from run to run. The bounds of 1e-4 are those of DeviceStep on a CPU.
Assembly assembled(const std::vector<std::string>& more = {}, Replicas* replicas = nullptr,
                   const std::string& device = kOnGpu.device) {
  std::vector<std::string> overrides = {"train_config.batch_size=4", "train_config.precision=FP32",
                                        "model.ssd.freeze_batchnorm=true",
                                        "train_config.fine_tune_checkpoint=", "train_input_reader.label_map_path="};
  overrides.insert(overrides.end(), more.begin(), more.end());
  JobOptions options = kOnGpu;
  options.replicas = replicas;
  options.device = device;
  const char* const elsewhere =
      std::getenv("OSPREY_SOURCE_DIR");  // where the programs have been packed for another machine
  const std::string folder = elsewhere != nullptr ? elsewhere : OSPREY_SOURCE_DIR;
  return assemble(config::load_pipeline(folder + "/configs/quickstart.config", overrides), options);
}

at::Device device_of(const Assembly& assembly) { return assembly.state.model->parameters().front().device(); }

Batch to_device(const Batch& batch, const Assembly& assembly) { return to(batch, device_of(assembly)); }

std::vector<Batch> batches_of(const Assembly& assembly, int count) {
  const auto source = training_source(assembly, kOnGpu);
  std::vector<Batch> batches;
  for (int i = 0; i < count; ++i) batches.push_back(to_device(*source->next(), assembly));
  return batches;
}

/// Fails where steps that are recorded give other numbers than steps made one by one.
void expect_same_steps(Assembly one_by_one, Assembly recorded) {
  constexpr int kSteps = StepGraph::kStepsBefore + 5;
  const SameWays scope;
  const std::vector<Batch> batches = batches_of(one_by_one, kSteps);
  StepGraph graph(recorded.state, *recorded.gradients, recorded.step, /*required=*/true);
  for (int i = 0; i < kSteps; ++i) {
    const StepResult expected = train_step(one_by_one.state, batches[i], *one_by_one.gradients, one_by_one.step);
    const StepResult found = graph.step(batches[i]);
    ASSERT_EQ(found.losses.size(), expected.losses.size());
    for (size_t k = 0; k < expected.losses.size(); ++k) {
      const double value = expected.losses[k].value.item<double>();
      EXPECT_NEAR(found.losses[k].value.item<double>(), value, 1e-4 * std::abs(value))
          << expected.losses[k].name << ", step " << i;
    }
  }
  const auto expected = snapshot(one_by_one.state);
  for (const auto& [name, tensor] : snapshot(recorded.state).tensors)
    EXPECT_LE((expected.tensors.at(name) - tensor).norm().item<double>(), 1e-4 * tensor.norm().item<double>()) << name;
  EXPECT_GT(graph.kernels(), 0);
}

TEST_F(GpuStep, RecordedOrOneByOneTheNumbersAreTheSame) { expect_same_steps(assembled(), assembled()); }

/// Fails where a run does not go on from its checkpoint on another device as on its own.
void expect_to_go_on(const std::string& from, const std::string& to) {
  const SameWays scope;
  Assembly here = assembled({}, nullptr, from), there = assembled({}, nullptr, to);
  const osprey::testing::TempDir folder;
  const auto bytes_of = [&](const Assembly& assembly) {
    checkpoint::write(folder / "ckpt-2.osprey", snapshot(assembly.state));
    return osprey::testing::read_file(folder / "ckpt-2.osprey");
  };
  const auto step = [](Assembly& assembly, const Batch& batch) {
    return train_step(assembly.state, to_device(batch, assembly), *assembly.gradients, assembly.step);
  };
  const std::vector<Batch> batches = batches_of(here, 3);
  for (int i = 0; i < 2; ++i) step(here, batches[i]);
  const std::string bytes = bytes_of(here);
  restore(there.state, checkpoint::read(folder / "ckpt-2.osprey"), "ckpt-2");
  EXPECT_EQ(bytes_of(there), bytes) << "no bit of it says where it was written";

  const StepResult expected = step(here, batches[2]), found = step(there, batches[2]);
  for (size_t k = 0; k < expected.losses.size(); ++k) {
    const double value = expected.losses[k].value.item<double>();
    EXPECT_NEAR(found.losses[k].value.item<double>(), value, 1e-4 * std::abs(value)) << expected.losses[k].name;
  }
  const auto wanted = snapshot(here.state);
  for (const auto& [name, tensor] : snapshot(there.state).tensors) {
    const at::Tensor other = wanted.tensors.at(name).cpu();
    EXPECT_LE((tensor.cpu() - other).norm().item<double>(), 1e-4 * other.norm().item<double>()) << name;
  }
}

TEST_F(GpuStep, ACheckpointOfAGpuIsGoneOnFromOnTheCpu) { expect_to_go_on("cuda", "cpu"); }
TEST_F(GpuStep, ACheckpointOfTheCpuIsGoneOnFromOnAGpu) { expect_to_go_on("cpu", "cuda"); }

// One replica's sums are its own numbers, but go through NCCL as those of many do.
TEST_F(GpuStep, SumsOverReplicasAreRecordedToo) {
  const auto replicas = join_replicas({.master_port = free_port()}, /*seconds=*/20);
  const std::vector<std::string> recording = {"train_config.accelerator.cuda_graph=ON"};
  Assembly recorded = assembled(recording, replicas.get());
  EXPECT_EQ(recorded.cuda_graph, StepRecording::kRequired);
  EXPECT_EQ(assembled({}, replicas.get()).cuda_graph, StepRecording::kOff);
  expect_same_steps(assembled(), std::move(recorded));
}

TEST_F(GpuStep, StepsWaitForNothing) {
  for (const char* precision : {"FP32", "BF16", "FP16"}) {
    Assembly assembly =
        assembled({std::string("train_config.precision=") + precision, "model.ssd.freeze_batchnorm=false"});
    const std::vector<Batch> batches = batches_of(assembly, 6);
    StepResult result = train_step(assembly.state, batches[0], *assembly.gradients, assembly.step);
    EXPECT_TRUE(result.ok()) << precision;
    {
      const NothingWaits scope;
      for (size_t i = 1; i < batches.size(); ++i)
        EXPECT_NO_THROW(result = train_step(assembly.state, batches[i], *assembly.gradients, assembly.step))
            << precision << ", step " << i;
    }
    EXPECT_TRUE(result.ok()) << precision;
  }
}

TEST_F(GpuStep, ARecordedStepWithBatchNormThatLearnsMovesItsAverages) {
  for (const char* precision : {"FP32", "BF16"}) {
    Assembly assembly =
        assembled({std::string("train_config.precision=") + precision, "model.ssd.freeze_batchnorm=false"});
    const std::vector<Batch> batches = batches_of(assembly, StepGraph::kStepsBefore + 3);
    StepGraph graph(assembly.state, *assembly.gradients, assembly.step, /*required=*/true);
    for (int i = 0; i <= StepGraph::kStepsBefore; ++i) graph.step(batches[i]);
    std::map<std::string, at::Tensor> before;
    for (const auto& [name, tensor] : snapshot(assembly.state).tensors) before[name] = tensor.detach().clone();
    StepResult result;
    {
      const NothingWaits scope;
      for (size_t i = StepGraph::kStepsBefore + 1; i < batches.size(); ++i)
        EXPECT_NO_THROW(result = graph.step(batches[i])) << precision;
    }
    EXPECT_TRUE(result.ok()) << precision;
    int averages = 0;
    for (const auto& [name, tensor] : snapshot(assembly.state).tensors) {
      if (name.find("moving_") == name.npos) continue;
      ++averages;
      EXPECT_TRUE(tensor.isfinite().all().item<bool>()) << name;
      EXPECT_FALSE(at::equal(tensor, before.at(name))) << name;
    }
    EXPECT_GT(averages, 0);
  }
}

/// Watches a run in which nothing may wait between two of its steps.
class WaitlessBetween final : public Hook {
 public:
  WaitlessBetween(int64_t first, int64_t last) : first_(first), last_(last) {}
  void after_step(const StepEvent& event) override {
    if (event.state.step == first_) scope_.emplace();
    if (event.state.step == last_) scope_.reset();
  }

 private:
  int64_t first_, last_;
  std::optional<NothingWaits> scope_;
};

TEST_F(GpuStep, ARunWaitsForNothingBetweenItsFirstStepsAndTheLast) {
  constexpr int64_t kSteps = 30;
  for (const auto recording : {StepRecording::kOff, StepRecording::kRequired}) {
    Assembly assembly = assembled();
    const auto source = training_source(assembly, kOnGpu);
    std::vector<int64_t> logged;
    ProgressHook progress(/*every_n=*/4, kSteps, {[&](const LogRecord& record) { logged.push_back(record.step); }});
    WaitlessBetween watch(StepGraph::kStepsBefore + 2, kSteps - 2);
    TrainerParts parts;
    parts.state = &assembly.state;
    parts.source = source.get();
    parts.gradients = assembly.gradients.get();
    parts.hooks = {&progress, &watch};
    EXPECT_NO_THROW(run(parts, {.num_steps = kSteps,
                                .checkpoint_every_n = 0,
                                .look_every_n = 5,
                                .cuda_graph = recording,
                                .step = assembly.step}));
    EXPECT_EQ(assembly.state.step, kSteps);
    EXPECT_EQ(logged.front(), 4);
    EXPECT_EQ(logged.back(), kSteps);
  }
}

TEST_F(GpuStep, ARecordedStepThatIsNotFiniteIsFoundAndReported) {
  Assembly assembly = assembled({"train_input_reader.float_images=true"});
  testing::PoisonedSource source(/*bad_batch=*/9, training_source(assembly, kOnGpu));
  TrainerParts parts;
  parts.state = &assembly.state;
  parts.source = &source;
  parts.gradients = assembly.gradients.get();
  parts.nan_report = [](const TrainState& state, const Batch&, const StepResult& result) {
    EXPECT_EQ(state.step, 9);
    EXPECT_FALSE(std::isfinite(result.losses.back().value.item<double>()));
    return std::string("somewhere");
  };
  EXPECT_THAT(
      [&] {
        run(parts, {.num_steps = 40,
                    .checkpoint_every_n = 0,
                    .look_every_n = 7,
                    .cuda_graph = StepRecording::kRequired,
                    .step = assembly.step});
      },
      ::testing::ThrowsMessage<DivergedError>(::testing::HasSubstr("Step 9 was not applied")));
  for (const auto& [name, tensor] : snapshot(assembly.state).tensors)
    EXPECT_TRUE(tensor.isfinite().all().item<bool>()) << name;
}

TEST_F(GpuStep, TheFeedGivesTheBatchesOfItsSource) {
  const Assembly assembly = assembled();
  const auto source = training_source(assembly, kOnGpu), same = training_source(assembly, kOnGpu);
  DeviceFeed feed(*source, device_of(assembly));
  for (int i = 0; i < 5; ++i) {
    const Batch found = *feed.next(), expected = *same->next();
    if (i % 2 == 0) feed.fetch_ahead();
    EXPECT_EQ(feed.position(), i + 1);
    EXPECT_TRUE(found.images.is_cuda());
    EXPECT_TRUE(at::equal(found.images.cpu(), expected.images)) << i;
    EXPECT_TRUE(at::equal(found.boxes.cpu(), expected.boxes)) << i;
    EXPECT_EQ(found.ids, expected.ids);
  }
}

TEST_F(GpuStep, ALaggingCopyKeepsTheValuesOfItsTime) {
  const at::Tensor numbers = at::full({2, 3}, 3.0, at::kCUDA),
                   flag = at::ones({}, at::TensorOptions(at::kCUDA).dtype(at::kBool));
  const LaggingCopy copy({numbers, flag});
  numbers.fill_(4);
  EXPECT_TRUE(at::equal(copy.tensors()[0], at::full({2, 3}, 3.0)));
  EXPECT_TRUE(copy.tensors()[1].item<bool>());
  EXPECT_TRUE(copy.ready());
}

TEST_F(GpuStep, SummariesWaitForNothing) {
  const testing::TempDir folder;
  Assembly assembly = assembled();
  const std::vector<Batch> batches = batches_of(assembly, 3);
  eval::EventWriter events(folder.path().string());
  SummaryHook summaries(events, /*every_seconds=*/1e-9, {});
  for (size_t i = 0; i < batches.size(); ++i) {
    const StepResult result = train_step(assembly.state, batches[i], *assembly.gradients, assembly.step);
    std::optional<NothingWaits> scope;
    if (i > 0) scope.emplace();  // buckets are made at first
    EXPECT_NO_THROW(summaries.after_step({assembly.state, result, batches[i]})) << i;
  }
}

TEST_F(GpuStep, PrecisionDecidesAboutTensorFloat32) {
  for (const auto& [precision, shortened] : {std::pair{"TF32", true}, {"FP32", false}, {"AUTO", true}}) {
    const Assembly assembly = assembled({std::string("train_config.precision=") + precision});
    EXPECT_EQ(at::globalContext().allowTF32CuBLAS(), shortened) << precision;
    EXPECT_EQ(at::globalContext().allowTF32CuDNN(), shortened) << precision;
  }
}

}  // namespace
}  // namespace osprey::train
#else

TEST(GpuStep, NeedsABuildWithNvcc) { GTEST_SKIP() << "this build has no kernels for GPUs"; }

#endif
