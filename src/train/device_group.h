#pragma once
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "osprey/train/replicas.h"

namespace osprey::train {

/// The replicas as GPUs see each other: through NCCL.
/// throws  ConfigError where this build has no NCCL
c10::intrusive_ptr<c10d::Backend> make_device_group(const c10::intrusive_ptr<c10d::Store>& store,
                                                    const ReplicaPlace& place, double seconds);

}  // namespace osprey::train
