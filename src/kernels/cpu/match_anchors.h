#pragma once
#include <cstdint>

#include "osprey/kernels/match_anchors.h"

namespace osprey::kernels::cpu {

/// The plain reference of `kernels::match_anchors` on contiguous memory; images in parallel.
/// boxes [B, M, 4], valid and forcing [B, M], anchors [A, 4] -> match [B, A]
void match_anchors(const float* boxes, const bool* valid, const bool* forcing, const float* anchors, int64_t B,
                   int64_t M, int64_t A, const MatchOptions& options, int64_t* match);

/// similarity [M, A], forcing [M] or nullptr -> match [A]
void match_similarity(const float* similarity, const bool* forcing, int64_t M, int64_t A, const MatchOptions& options,
                      int64_t* match);

}  // namespace osprey::kernels::cpu
