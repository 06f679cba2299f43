#pragma once
#include <ATen/core/Tensor.h>

#include <memory>

#include "train/assembly.h"

/// How a run computes: its precision, the scale of its loss, and whether its steps are recorded.
namespace osprey::train {

/// The arithmetic of a run; libtorch is told whether GPUs may shorten float32, and to look for its fastest
/// convolutions, which pays where shapes never change, or to take only those that are deterministic.
/// throws ConfigError where `deterministic` cannot be had: for precision AUTO where a trial would decide, and where the
///        environment forbids it to cuBLAS
Precision precision_of(const Assembly& assembly, const at::Device& device, Replicas* replicas);

const char* name_of(Precision precision);

/// The loss scale of a run; null where the loss is taken as it is.
std::shared_ptr<LossScale> loss_scale_of(const config::ConfigNode<proto::TrainConfig>& train, Precision precision,
                                         const at::Device& device);

/// Whether steps are recorded as a CUDA graph: with ON, or where AUTO finds nothing against it. Of several replicas
/// only with ON: a recorded sum waits for a replica that is silent as long as it takes.
StepRecording recording_of(const config::Pipeline& pipeline, const config::ConfigNode<proto::TrainConfig>& train,
                           const at::Device& device, bool several);

}  // namespace osprey::train
