// A training step as it runs on a GPU: by the GPU's kernels, which the CPU runs here, and without a look at any value.
#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <gmock/gmock.h>

#include "../src/train/assembly.h"
#include "../src/train/training_source.h"
#include "osprey/base/error.h"
#include "osprey/kernels/device.h"
#include "support/golden.h"
#include "support/temp_dir.h"
#include "support/toy_model.h"
#include "train/poisoned_source.h"
#include "train/toy_run.h"

namespace osprey::train {
namespace {

using kernels::device::Emulation;
using osprey::testing::expect_close;
using osprey::testing::make_toy_source;
using osprey::testing::parts_of;
using osprey::testing::PoisonedSource;
using osprey::testing::TempDir;
using osprey::testing::ToyRun;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Assembly assembled(const std::string& config, const std::vector<std::string>& more = {}) {
  std::vector<std::string> overrides = {"train_config.batch_size=2",
                                        "train_config.fine_tune_checkpoint=", "train_input_reader.label_map_path="};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return assemble(config::load_pipeline(std::string(OSPREY_SOURCE_DIR "/configs/") + config, overrides),
                  {.use_fake_data = true});
}

std::vector<Batch> batches_of(const Assembly& assembly, int count) {
  const auto source = training_source(assembly, {.use_fake_data = true});
  std::vector<Batch> batches;
  for (int i = 0; i < count; ++i) batches.push_back(*source->next());
  return batches;
}

/// One step of the same model by the loops for CPUs and by the kernels.
/// norm_tolerance   relative, of the norm of all gradients
/// state_tolerance  relative, of each weight and what the optimizer keeps of it; 0: not looked at
void expect_same_step(const std::vector<std::string>& overrides, double norm_tolerance, double state_tolerance) {
  Assembly here = assembled("quickstart.config", overrides), there = assembled("quickstart.config", overrides);
  const Batch batch = batches_of(here, 1).front();
  const StepResult ours = train_step(here.state, batch, *here.gradients, here.step);
  const Emulation emulation;
  const StepResult theirs = train_step(there.state, batch, *there.gradients, there.step);
  EXPECT_TRUE(theirs.ok());
  for (size_t i = 0; i < ours.losses.size(); ++i)
    expect_close(theirs.losses[i].value, ours.losses[i].value, 0, 1e-5, ours.losses[i].name);
  const double norm = ours.gradient_norm.item<double>();
  EXPECT_NEAR(theirs.gradient_norm.item<double>(), norm, norm_tolerance * norm);
  if (state_tolerance == 0) return;
  const auto state = snapshot(there.state);
  for (const auto& [name, tensor] : snapshot(here.state).tensors)
    EXPECT_LE((state.tensors.at(name) - tensor).norm().item<double>(), state_tolerance * tensor.norm().item<double>())
        << name;
}

TEST(DeviceStep, MovesTheWeightsAsTheCpuDoes) {
  expect_same_step({"model.ssd.freeze_batchnorm=true"}, 1e-6, 1e-4);
  // Where batch norm learns the gradients of the first layers are uncertain to some hundredths in float32: the last
  // maps have one value per image. With a large epsilon they are not, but for those of its shifts, which the next batch
  // norm takes away.
  expect_same_step({"train_config.batch_size=8", "model.ssd.feature_extractor.conv_hyperparams.batch_norm.epsilon=1"},
                   1e-5, 0);
}

/// Names and shapes of all operations of a step, in their order.
struct Operations {
  std::vector<std::string> all;
  static thread_local Operations* current;
};
thread_local Operations* Operations::current = nullptr;

std::unique_ptr<at::ObserverContext> note(const at::RecordFunction& function) {
  if (Operations::current == nullptr) return nullptr;
  std::ostringstream text;
  text << function.name();
  for (const c10::IValue& input : function.inputs()) {
    if (input.isTensor() && input.toTensor().defined()) text << ' ' << input.toTensor().sizes();
    if (input.isInt()) text << ' ' << input.toInt();
  }
  Operations::current->all.push_back(text.str());
  return nullptr;
}

template <class Run>
std::vector<std::string> operations_in(Run run) {
  Operations operations;
  Operations::current = &operations;
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(note).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  {
    const Emulation emulation;
    run();
  }
  at::removeCallback(handle);
  Operations::current = nullptr;
  return operations.all;
}

std::vector<std::string> operations_of(Assembly& assembly, const Batch& batch) {
  return operations_in([&] { train_step(assembly.state, batch, *assembly.gradients, assembly.step); });
}

/// Operations whose result, or whose shape, the host has to wait for.
bool waits(const std::string& operation) {
  for (const char* name : {"aten::item", "aten::_local_scalar_dense", "aten::is_nonzero", "aten::nonzero",
                           "aten::masked_select", "aten::equal", "aten::allclose", "aten::unique", "aten::bincount"})
    if (operation == name || operation.starts_with(std::string(name) + " ")) return true;
  return false;
}

/// Operations that libtorch has for GPUs only in a form that may add numbers up in another order every time.
bool differs_from_run_to_run(const std::string& operation) {
  for (const char* name :
       {"aten::_adaptive_avg_pool2d_backward", "aten::max_unpool2d", "aten::upsample_bilinear2d_backward",
        "aten::upsample_bicubic2d_backward", "aten::grid_sampler_2d_backward", "aten::reflection_pad2d_backward",
        "aten::replication_pad2d_backward", "aten::put_", "aten::histc", "aten::kthvalue", "aten::median",
        "aten::index_reduce_", "aten::scatter_reduce_", "aten::embedding_bag"})
    if (operation == name || operation.starts_with(std::string(name) + " ")) return true;
  return false;
}

class StepOfConfig : public ::testing::TestWithParam<const char*> {};

/// Operations of a step, which are the same whatever a batch holds.
std::vector<std::string> steady_operations(const char* config, std::vector<std::string> changes = {}) {
  changes.emplace_back("train_config.gradient_clipping_by_norm=10");
  Assembly assembly = assembled(config, changes);
  std::vector<Batch> batches = batches_of(assembly, 4);
  batches[2].valid.fill_(false);  // no box at all
  batches[3].images = batches[3].images.clone().fill_(0);
  operations_of(assembly, batches[0]);  // anchors are made once
  const std::vector<std::string> result = operations_of(assembly, batches[1]);
  EXPECT_GT(result.size(), 500u);
  for (const std::string& operation : result) EXPECT_FALSE(differs_from_run_to_run(operation)) << operation;
  for (size_t i : {2u, 3u}) EXPECT_EQ(operations_of(assembly, batches[i]), result) << "batch " << i;
  return result;
}

TEST_P(StepOfConfig, ReadsNothingBackAndIsTheSameWhateverABatchHolds) {
  for (const std::string& operation : steady_operations(GetParam())) EXPECT_FALSE(waits(operation)) << operation;
}

TEST(StepOfRoundedNetwork, ReadsNothingBackAndIsTheSameWhateverABatchHolds) {
  struct Rounding {
    const char* fields;
    int64_t by_one_range;
  };
  for (const auto& [fields, by_one_range] :
       {Rounding{"delay: 0", 70}, {"delay: 3", 70}, {"delay: 3 weights_per_channel: true", 35}}) {
    const std::vector<std::string> operations =
        steady_operations("quickstart.config", {fmt::format("graph_rewriter={{quantization {{{}}}}}", fields)});
    for (const std::string& operation : operations) EXPECT_FALSE(waits(operation)) << operation;
    EXPECT_EQ(
        std::ranges::count_if(
            operations, [](const std::string& one) { return one.starts_with("osprey::rounded_values_backward "); }),
        by_one_range)
        << "weights and maps of 35 convolutions";
  }
}

std::string family(const ::testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
  return name;
}

INSTANTIATE_TEST_SUITE_P(Configs, StepOfConfig,
                         ::testing::Values("quickstart.config", "ssd_efficientdet_d0_256x256_bccd.config",
                                           "ssd_mobilenet_v1_300x300_coco14_sync.config",
                                           "ssd_mobilenet_v2_fpnlite_320x320_bccd.config",
                                           "ssd_resnet18_v1_fpn_192x192_bccd.config",
                                           "ssdlite_mobilenet_v3_small_320x320_bccd.config"),
                         family);

TEST(DeviceStep, AfterAStepThatIsNotFiniteNothingChanges) {
  const Emulation emulation;
  for (const char* optimizer : {ToyRun::kMomentum, ToyRun::kAdam}) {
    ToyRun run({}, optimizer);
    run.state.loss_scale = std::make_shared<LossScale>(LossScaleOptions{.initial = LossScale::kLeast}, at::kCPU);
    const auto source = make_toy_source(4);
    train_step(run.state, *source->next(), *run.gradients, {});
    std::map<std::string, at::Tensor> before;
    for (const auto& [name, tensor] : snapshot(run.state).tensors) before[name] = tensor.detach().clone();
    Batch bad = *source->next();
    bad.images = bad.images.to(at::kFloat);
    bad.images[0][0][0][0] = NAN;
    EXPECT_FALSE(train_step(run.state, bad, *run.gradients, {}).ok());
    EXPECT_FALSE(train_step(run.state, *source->next(), *run.gradients, {}).ok()) << "a good step after a bad one";
    for (const auto& [name, tensor] : snapshot(run.state).tensors)
      EXPECT_TRUE(at::equal(tensor, before.at(name))) << name;
    EXPECT_EQ(run.state.healthy_steps.item<int64_t>(), 1);
    EXPECT_EQ(run.state.step, 3) << "the host counts on until it looks";
  }
}

TEST(DeviceStep, ALateLookFindsTheStepAndItsBatch) {
  const Emulation emulation;
  ToyRun toy({});
  PoisonedSource source(4);
  TrainerParts parts = parts_of(toy, source);
  parts.nan_report = [](const TrainState& state, const Batch& batch, const StepResult& result) {
    EXPECT_EQ(state.step, 4);
    EXPECT_EQ(state.data_position, 4);
    EXPECT_EQ(batch.ids.front(), "toy-8");
    EXPECT_FALSE(std::isfinite(result.losses.back().value.item<double>()))
        << "the loss of that step, not of a later one";
    return std::string("somewhere");
  };
  EXPECT_THAT([&] { run(parts, {.num_steps = 30, .checkpoint_every_n = 0, .look_every_n = 10}); },
              ThrowsMessage<DivergedError>(AllOf(HasSubstr("Step 4 was not applied"), HasSubstr("somewhere"))));
}

TEST(DeviceStep, ASignalAfterAStepThatIsNotFiniteLeavesNoCheckpointOfIt) {
  const Emulation emulation;
  const TempDir folder;
  checkpoint::Directory checkpoints(folder.path(), {});
  ToyRun toy({});
  PoisonedSource source(4);
  TrainerParts parts = parts_of(toy, source);
  parts.checkpoints = &checkpoints;
  parts.signal = [&] { return toy.state.step >= 6 ? 15 : 0; };
  EXPECT_THROW(run(parts, {.num_steps = 100, .checkpoint_every_n = 0, .look_every_n = 100}), DivergedError);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace osprey::train
