#pragma once
#include <functional>

#include "data/augmentations/autoaugment_policies.h"
#include "osprey/core/example.h"
#include "osprey/data/random.h"

namespace osprey::data {

/// A step of a policy, ready to be applied to examples whose image is [H, W, 3] uint8, which it stays.
///
/// Whole-image moves take boxes, masks and keypoints along; no box is dropped, whatever is left of it. Operations
/// inside boxes change the image alone, box after box in a random order. Where a move or a cut-out leaves nothing, the
/// level is 128 in each channel.
using PolicyOperation = std::function<void(Example& example, RandomDraws& draws)>;

/// throws std::logic_error for an operation that no policy may name
PolicyOperation policy_operation(const PolicyStep& step);

}  // namespace osprey::data
