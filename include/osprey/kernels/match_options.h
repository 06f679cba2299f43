#pragma once

namespace osprey::kernels {

/// Thresholds of the arg-max matching; argmax_matcher.proto describes each.
struct MatchOptions {
  bool use_thresholds = true;                  ///< false: every anchor gets its best box
  float matched_threshold = 0.5f;              ///< overlap >= matched is a match
  float unmatched_threshold = 0.5f;            ///< overlap < unmatched is background; in between the anchor is ignored
  bool negatives_lower_than_unmatched = true;  ///< false swaps background and ignored
  bool force_match_for_each_row = false;       ///< each box also claims its best anchor, whatever the overlap
};

}  // namespace osprey::kernels
