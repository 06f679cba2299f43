#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "osprey/core/box.h"

namespace osprey {

/// One annotated image on its way from a record to a batch.
///
/// The per-object lists are either as long as `boxes` or empty where the record did not carry them; whoever drops,
/// keeps or reorders boxes does the same to all of them (`select`).
struct Example {
  std::string id;         ///< source_id of the record; "" where it has none
  std::string file_name;  ///< name of the original picture; "" where the record has none
  std::string encoded;    ///< encoded picture; empty once decoded
  at::Tensor image;       ///< [H, W, 3] uint8, or float32 in 0..255 while augmented; RGB; undefined until decoded
  int64_t original_height = 0, original_width = 0;  ///< size of the picture in the record, pixels

  std::vector<Box> boxes;            ///< [N] normalised to the image as it is now
  std::vector<int64_t> classes;      ///< [N] 0-based
  std::vector<float> weights;        ///< [N] 1 where the record has none
  std::vector<float> confidences;    ///< [N] or empty: label confidences
  std::vector<uint8_t> is_crowd;     ///< [N] or empty
  std::vector<uint8_t> difficult;    ///< [N] or empty
  std::vector<uint8_t> group_of;     ///< [N] or empty
  std::vector<float> area;           ///< [N] or empty: annotated area in pixels of the original picture
  at::Tensor multiclass_scores;      ///< [N, C] float32, or undefined
  at::Tensor masks;                  ///< [N, H, W] float32 in {0, 1}, or undefined
  at::Tensor keypoints;              ///< [N, K, 2] float32 (y, x) normalised, NaN where not visible; or undefined
  at::Tensor keypoint_visibilities;  ///< [N, K] bool, or undefined
  std::vector<float> mask_weights;   ///< [N] or empty; 1 where the record has masks and no weights

  // Labels of the whole image; the lists have lengths of their own.
  std::vector<int64_t> image_classes;           ///< 0-based classes known to be in the image or not, by confidence
  std::vector<float> image_confidences;         ///< as long as `image_classes`, or empty
  std::vector<int64_t> negative_classes;        ///< 0-based classes that were looked for and are not in the image
  std::vector<int64_t> not_exhaustive_classes;  ///< 0-based classes of which not every object is annotated
};

/// Keeps the objects named by `indices`, in that order, in every per-object list of the example.
/// indices  each in [0, N); throws c10::Error otherwise
void select(Example& example, const std::vector<int64_t>& indices);

/// Puts the objects of `more` behind those of the example in every per-object list; the picture stays. Where only one
/// of them has a list, the other's objects have 1 as weight or confidence and 0 as flag or area. Labels of the whole
/// image follow each other; of negative classes those stay that both have.
/// throws c10::Error where only one has multiclass_scores, masks or keypoints, or their sizes differ
void append(Example& example, const Example& more);

}  // namespace osprey
