#include "kernels/cpu/match_anchors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/loops/best_overlap.h"
#include "osprey/core/targets.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels::cpu {
namespace {

constexpr int32_t kNone = -1;
constexpr int64_t kBlock = 256;  ///< anchors that are compared with a box at a time

struct Best {
  float value;
  int64_t index;
};

/// From the best box of each anchor, and the best anchor of each box that may force, to the match.
/// rows  index of each box in the result
void decide(const std::vector<float>& best_value, const std::vector<int32_t>& best_row,
            const std::vector<Best>& best_anchor, const std::vector<bool>& forcing, const MatchOptions& options,
            int64_t* match) {
  const auto A = static_cast<int64_t>(best_value.size());
  const int64_t below = options.negatives_lower_than_unmatched ? Match::kBackground : Match::kIgnore;
  const int64_t between = options.negatives_lower_than_unmatched ? Match::kIgnore : Match::kBackground;
  for (int64_t a = 0; a < A; ++a) {
    if (best_row[a] == kNone) {
      match[a] = Match::kBackground;
    } else if (!options.use_thresholds || best_value[a] >= options.matched_threshold) {
      match[a] = best_row[a];
    } else {
      match[a] = best_value[a] < options.unmatched_threshold ? below : between;
    }
  }
  if (!options.force_match_for_each_row) return;
  for (auto row = static_cast<int64_t>(best_anchor.size()) - 1; row >= 0; --row)  // the lowest row writes last and wins
    if (forcing[row] && best_anchor[row].index != kNone) match[best_anchor[row].index] = row;
}

/// Anchors side by side instead of one after the other, padded to whole blocks, with the hull of each block.
struct AnchorBlocks {
  int64_t A, num_blocks;
  std::vector<float> ymin, xmin, ymax, xmax, area;
  std::vector<std::array<float, 4>> hulls;

  AnchorBlocks(const float* anchors, int64_t count)
      : A(count), num_blocks((count + kBlock - 1) / kBlock), hulls(num_blocks) {
    for (auto* side : {&ymin, &xmin, &ymax, &xmax, &area}) side->assign(num_blocks * kBlock, 0.0f);
    for (int64_t a = 0; a < A; ++a) {
      const float* box = anchors + a * 4;
      ymin[a] = box[0], xmin[a] = box[1], ymax[a] = box[2], xmax[a] = box[3];
      area[a] = (box[2] - box[0]) * (box[3] - box[1]);
      auto& hull = hulls[a / kBlock];
      if (a % kBlock == 0) hull = {box[0], box[1], box[2], box[3]};
      hull = {std::min(hull[0], box[0]), std::min(hull[1], box[1]), std::max(hull[2], box[2]),
              std::max(hull[3], box[3])};
    }
  }

  AnchorColumns columns(int64_t block) const {
    const int64_t at = block * kBlock;
    return {ymin.data() + at, xmin.data() + at, ymax.data() + at, xmax.data() + at, area.data() + at};
  }

  bool touches(const float* box, int64_t block) const {
    const auto& hull = hulls[block];
    return box[0] < hull[2] && box[2] > hull[0] && box[1] < hull[3] && box[3] > hull[1];
  }
};

bool finite(const float* box) {
  return std::isfinite(box[0]) && std::isfinite(box[1]) && std::isfinite(box[2]) && std::isfinite(box[3]);
}

void match_image(const float* boxes, const bool* valid, const bool* forcing, const AnchorBlocks& anchors, int64_t M,
                 const MatchOptions& options, int64_t* match) {
  // An IoU is never negative and ties go to the lower index, so the search may start from 0 at the first box and first
  // anchor, and a box need only be compared with the blocks it touches.
  std::vector<bool> takes_part(M), forces(M);
  int64_t first = kNone;
  for (int64_t row = M - 1; row >= 0; --row) {
    takes_part[row] = valid[row] && finite(boxes + row * 4);
    forces[row] = takes_part[row] && forcing[row];
    if (takes_part[row]) first = row;
  }
  std::vector<float> best_value(anchors.num_blocks * kBlock, 0.0f);
  std::vector<int32_t> best_row(anchors.num_blocks * kBlock, static_cast<int32_t>(first));
  std::vector<Best> best_anchor(M, Best{0.0f, anchors.A > 0 ? 0 : kNone});

  float values[kBlock];
  for (int64_t row = 0; row < M; ++row) {
    if (!takes_part[row]) continue;
    const float* box = boxes + row * 4;
    for (int64_t block = 0; block < anchors.num_blocks; ++block) {
      if (!anchors.touches(box, block)) continue;
      const float block_best =
          improve_best_overlap(box, anchors.columns(block), kBlock, static_cast<int32_t>(row), values,
                               best_value.data() + block * kBlock, best_row.data() + block * kBlock);
      if (block_best > best_anchor[row].value)
        best_anchor[row] = {block_best, block * kBlock + (std::find(values, values + kBlock, block_best) - values)};
    }
  }
  best_value.resize(anchors.A);
  best_row.resize(anchors.A);
  decide(best_value, best_row, best_anchor, forces, options, match);
}

}  // namespace

void match_anchors(const float* boxes, const bool* valid, const bool* forcing, const float* anchors, int64_t B,
                   int64_t M, int64_t A, const MatchOptions& options, int64_t* match) {
  const AnchorBlocks blocks(anchors, A);
  parallel_for(B, [&](int64_t b) {
    match_image(boxes + b * M * 4, valid + b * M, forcing + b * M, blocks, M, options, match + b * A);
  });
}

void match_similarity(const float* similarity, const bool* forcing, int64_t M, int64_t A, const MatchOptions& options,
                      int64_t* match) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  std::vector<float> best_value(A, kLowest);
  std::vector<int32_t> best_row(A, kNone);
  std::vector<Best> best_anchor(M, Best{kLowest, kNone});
  for (int64_t row = 0; row < M; ++row) {
    for (int64_t a = 0; a < A; ++a) {
      const float value = similarity[row * A + a];
      if (std::isnan(value)) continue;
      if (best_row[a] == kNone || value > best_value[a]) best_value[a] = value, best_row[a] = static_cast<int32_t>(row);
      if (best_anchor[row].index == kNone || value > best_anchor[row].value) best_anchor[row] = {value, a};
    }
  }
  std::vector<bool> forces(M, true);
  if (forcing != nullptr) forces.assign(forcing, forcing + M);
  decide(best_value, best_row, best_anchor, forces, options, match);
}

}  // namespace osprey::kernels::cpu
