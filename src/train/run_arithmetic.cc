#include "train/run_arithmetic.h"

#include <ATen/Context.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cmath>
#include <cstdlib>
#include <string>

#include "osprey/config/static_shapes.h"
#include "osprey/config/support.h"
#include "train/faster_precision.h"
#include "train/step_graph.h"

namespace osprey::train {
namespace {

/// The faster one on this machine for the model of the run.
proto::TrainConfig::Precision tried_precision(const Assembly& assembly, Replicas* replicas) {
  const PrecisionTrial trial = try_precisions(*assembly.state.model, data::train_options(assembly.root()), replicas);
  const bool narrow = trial.bfloat16 < trial.float32;
  SPDLOG_INFO(
      "train_config.precision: AUTO is {}: a trial of forward and backward took {:.3g} s in fp32, {:.3g} s in bf16",
      narrow ? "bf16" : "fp32", trial.float32, trial.bfloat16);
  return narrow ? proto::TrainConfig::BF16 : proto::TrainConfig::FP32;
}

/// Whether the environment says, as it says to TensorFlow, that the user's own code scales losses.
bool scaled_by_user() {
  const char* const value = std::getenv("TF_ENABLE_AUTO_MIXED_PRECISION_LOSS_SCALING");
  if (value == nullptr || std::string(value) != "0") return false;
  SPDLOG_INFO("TF_ENABLE_AUTO_MIXED_PRECISION_LOSS_SCALING=0: the loss is taken as it is");
  return true;
}

/// Lets libtorch take on GPUs only ways that give the same bits every time, or all again. It tries them out for each
/// shape, which is not worth it where every batch has another.
void choose_ways(const config::ConfigNode<proto::TrainConfig>& train, bool one_shape) {
  at::Context& libtorch = at::globalContext();
  libtorch.setBenchmarkCuDNN(one_shape && !train->deterministic());
  libtorch.setDeterministicCuDNN(train->deterministic());
  libtorch.setDeterministicAlgorithms(train->deterministic(), /*warn_only=*/false);
  libtorch.setDeterministicFillUninitializedMemory(false);  // nobody reads what was not written
  if (!train->deterministic()) return;
  constexpr const char* kVariable = "CUBLAS_WORKSPACE_CONFIG";
  ::setenv(kVariable, ":4096:8", /*overwrite=*/0);
  const std::string workspace = std::getenv(kVariable);
  if (workspace != ":4096:8" && workspace != ":16:8")
    train.fail("deterministic", fmt::format("cuBLAS repeats itself with :4096:8 or :16:8 as {} in the environment, but "
                                            "there it is {}; leave it out",
                                            kVariable, workspace));
}

}  // namespace

Precision precision_of(const Assembly& assembly, const at::Device& device, Replicas* replicas) {
  auto wanted = config::precision(assembly.train(), device.is_cuda());
  const bool tries = wanted == proto::TrainConfig::AUTO;
  const auto train = assembly.root().child("train_config", assembly.train());
  if (tries && train->deterministic())
    train.fail("precision",
               "AUTO is decided here by a trial of speed, which may end otherwise the next time; with deterministic "
               "write FP32 or BF16");
  const bool all_try = replicas == nullptr || replicas->largest(tries ? 0 : 1) == 0;  // their CPUs may differ
  if (tries) wanted = all_try ? tried_precision(assembly, replicas) : proto::TrainConfig::FP32;
  const bool shortened = wanted == proto::TrainConfig::TF32;
  if (device.is_cuda()) {
    at::globalContext().setAllowTF32CuBLAS(shortened);
    at::globalContext().setAllowTF32CuDNN(shortened);
    choose_ways(train, !assembly.state.model->any_input_size());
  }
  if (wanted == proto::TrainConfig::BF16) return Precision::kBfloat16;
  if (wanted == proto::TrainConfig::FP16) return Precision::kFloat16;
  return shortened && device.is_cuda() ? Precision::kTensorFloat32 : Precision::kFloat32;
}

const char* name_of(Precision precision) {
  switch (precision) {
    case Precision::kFloat32:
      return "fp32";
    case Precision::kTensorFloat32:
      return "tf32";
    case Precision::kBfloat16:
      return "bf16";
    case Precision::kFloat16:
      return "fp16";
  }
  return "";
}

std::shared_ptr<LossScale> loss_scale_of(const config::ConfigNode<proto::TrainConfig>& train, Precision precision,
                                         const at::Device& device) {
  const auto node = train.child("loss_scale", train->loss_scale());
  switch (node->mode_case()) {
    case proto::LossScale::kNone:
      if (!node->none()) node.fail("none", "false says nothing; write none: true, fixed or dynamic");
      return nullptr;
    case proto::LossScale::kFixed:
      if (!(node->fixed() > 0 && std::isfinite(node->fixed())))
        node.fail("fixed", fmt::format("must be a finite number > 0, got {}", node->fixed()));
      return std::make_shared<LossScale>(LossScaleOptions{.initial = node->fixed(), .dynamic = false}, device);
    case proto::LossScale::kDynamic:
      break;
    case proto::LossScale::MODE_NOT_SET:
      if (precision != Precision::kFloat16 || scaled_by_user()) return nullptr;
      break;
  }
  const auto dynamic = node.child("dynamic", node->dynamic());
  if (!(dynamic->initial() > 0 && std::isfinite(dynamic->initial())))
    dynamic.fail("initial", fmt::format("must be a finite number > 0, got {}", dynamic->initial()));
  if (dynamic->growth_interval() < 1) dynamic.fail("growth_interval", "must be >= 1, got 0");
  return std::make_shared<LossScale>(
      LossScaleOptions{.initial = dynamic->initial(), .growth_interval = dynamic->growth_interval()}, device);
}

StepRecording recording_of(const config::Pipeline& pipeline, const config::ConfigNode<proto::TrainConfig>& train,
                           const at::Device& device, bool several) {
  const auto accelerator = train.child("accelerator", train->accelerator());
  if (accelerator->cuda_graph() == proto::Accelerator::OFF) return StepRecording::kOff;
  const bool required = accelerator->cuda_graph() == proto::Accelerator::ON;
  if (several && !required) return StepRecording::kOff;
  std::string obstacle;
  if (!device.is_cuda() || !StepGraph::available()) obstacle = "needs a GPU, and a build with kernels for it";
  for (const auto& part : config::dynamic_parts(pipeline))
    if (part.in_step)
      obstacle = fmt::format("is not for a step with {}, which {}", part.remark.path, part.remark.message);
  if (required && !obstacle.empty()) accelerator.fail("cuda_graph", "ON " + obstacle);
  return required ? StepRecording::kRequired : obstacle.empty() ? StepRecording::kIfPossible : StepRecording::kOff;
}

}  // namespace osprey::train
