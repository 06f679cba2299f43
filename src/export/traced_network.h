#pragma once
#include <torch/csrc/jit/ir/ir.h>

#include <functional>
#include <memory>

#include "osprey/models/detection_model.h"

namespace osprey {

/// What a model computes, as a graph that knows the shapes of all tensors: its weights are constants, and batch norms
/// are in the weights of the convolutions before them.
///
/// model     in evaluation mode
/// function  from the inputs to one tuple of tensors
/// returns   a graph without `self`
std::shared_ptr<torch::jit::Graph> traced_network(models::DetectionModel& model, const torch::jit::Stack& inputs,
                                                  const std::function<torch::jit::Stack(torch::jit::Stack)>& function);

/// A copy of a network without what has no effect, and without operations in place. Those that are left have the only
/// reader of what they change, so that they may as well give something new.
/// throws  ConfigError where one changes what others read
std::shared_ptr<torch::jit::Graph> pure(torch::jit::Graph& network);

}  // namespace osprey
