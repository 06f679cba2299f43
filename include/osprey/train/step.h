#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "osprey/core/batch.h"
#include "osprey/optim/gradients.h"
#include "osprey/train/gradient_sum.h"
#include "osprey/train/train_state.h"

namespace osprey::train {

/// Arithmetic of convolutions and matrix products; weights, optimizer and losses are float32 throughout.
enum class Precision {
  kFloat32,
  kTensorFloat32,  ///< float32 whose products have 10 bits of mantissa, on GPUs that have it; elsewhere float32
  kBfloat16,       ///< by autocast
  kFloat16,        ///< by autocast, with a loss scale
};

struct StepOptions {
  int64_t micro_batches = 1;  ///< gradient accumulation: the batch is split into so many equal parts
  Precision precision = Precision::kFloat32;
  GradientSum* replicas = nullptr;  ///< over which everything is summed; null: this process trains alone
};

/// A value of the log by its TensorBoard tag, e.g. "Loss/classification_loss".
struct NamedScalar {
  std::string name;
  at::Tensor value;  ///< scalar on the device
};

/// What a step did. The losses are those the update was computed from.
struct StepResult {
  std::vector<NamedScalar> losses;  ///< normalised terms, "Loss/regularization_loss" where the gradients have those of
                                    ///< penalties, "loss_scale" where there is one, "Loss/total_loss" last
  at::Tensor gradient_norm;         ///< scalar: norm of all gradients after the bias multiplier, before clipping
  double learning_rate = 0;
  at::Tensor
      healthy;      ///< scalar bool on the device: false where loss or a gradient was not finite, in this step or one
                    ///< before, and no smaller loss scale can help; from there on nothing in the state has changed
  bool ok() const;  ///< its value; waits for the device
};

/// The parts of `train_step`, for whoever records the middle one and repeats it: what the host puts where the device
/// reads it, what the device does, and what the host counts.
void prepare_step(TrainState& state);
StepResult device_step(TrainState& state, const Batch& batch, optim::GradientPipeline& gradients,
                       const StepOptions& options);
void count_step(TrainState& state);

/// The un-normalised loss sums of one batch after backward, added up over its parts.
struct GradientSums {
  std::vector<NamedScalar> terms;  ///< un-normalised
  at::Tensor normalizer;           ///< scalar, or undefined where the losses are not normalised
};

/// One training step:
///
///     for each part of the batch: preprocess, predict, losses, backward of their un-normalised sum (times the scale)
///     replicas: sums, match counts and gradients become those of all of them
///     gradients / max(match count, 1) (/ scale); regularisation is added once
///     finite?  no: nothing is changed but the scale
///     bias multiplier -> freeze -> clip -> update -> batch-norm statistics -> moving average
///     step and data position + 1
///
/// On a device nothing is read back: whether the step was finite is decided there, and step and data position count on.
/// On the CPU a step that could not be made leaves them alone, too.
///
/// The model is put in training mode. Parts being summed before the one division, a batch gives the same step whole or
/// in parts, up to rounding and the statistics of trainable batch norms, which see the parts.
/// batch    on the model's device; its size is a multiple of micro_batches (c10::Error otherwise)
StepResult train_step(TrainState& state, const Batch& batch, optim::GradientPipeline& gradients,
                      const StepOptions& options);

/// The first half of `train_step`: the gradients of the un-normalised sums, over all replicas, are left in the
/// parameters' grad().
/// loss_scale  scalar that the sums are multiplied by before backward; undefined: 1
GradientSums accumulate_gradients(models::DetectionModel& model, const Batch& batch, const StepOptions& options,
                                  const at::Tensor& loss_scale = {});

/// The weights in channels_last, the layout in which convolutions on batches of our layout run fastest. Values are
/// kept.
void to_channels_last(models::DetectionModel& model);

}  // namespace osprey::train
