#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "osprey/core/batch.h"
#include "osprey/core/example.h"
#include "osprey/data/image_resizer.h"

namespace osprey::data {

/// The shape of every batch of a run.
struct BatchShape {
  int64_t batch_size = 1;
  ImageSize image;            ///< of the canvas
  bool own_size = false;      ///< of a batch of one: its picture stays as it is, and lies in no canvas
  bool resize_later = false;  ///< pictures that fit stay as they are, and the batch has source_shapes
  int64_t channels = 3;
  int64_t max_boxes = 100;    ///< M
  int64_t num_classes = 0;    ///< C, for rows of classes
  bool float_images = false;  ///< float32 instead of uint8
  bool multi_label = false;   ///< classes are k-hot [B, M, C]: equal boxes become one row
  bool class_scores = false;  ///< otherwise, classes are the rows of multiclass_scores, [B, M, C]
  bool confidences = false;   ///< the batch carries label confidences
  bool pin_memory = false;
};

/// A batch of padding: zeros, valid false, image weights 0. Rows are filled by `put`, from any thread, each once.
Batch empty_batch(const BatchShape& shape);

/// Resizes, unless that comes later, and writes an example into row `row` of a batch made by empty_batch.
/// Boxes beyond max_boxes are left out (the first ones in the record stay).
/// key      running number of the example in the run
/// returns  how many boxes were left out
int64_t put(Batch& batch, int64_t row, const Example& example, int64_t key, const BatchShape& shape,
            const ImageResizer& resizer);

/// Leaves out the objects whose box has a NaN or whose class is negative, with everything that belongs to them: weights
/// too, which the original forgets, so that there each later weight belongs to the wrong box (see docs).
void drop_unusable_objects(Example& example);

/// Equal boxes merged into one row each, in the order of their first appearance.
struct MergedBoxes {
  std::vector<int64_t> first;   ///< [K] index of the first object with this box
  std::vector<int64_t> merged;  ///< [N] row of every object
};
/// Equal are those that fall onto the same places of a grid over the canvas, of 9999 steps a side, as in the original.
/// on_canvas  height and width of the picture, as shares of the canvas
/// throws     c10::Error where the example has masks or keypoints, which cannot be merged
MergedBoxes merge_boxes(const Example& example, std::array<float, 2> on_canvas = {1, 1});
/// The same of a picture that takes `content` of the canvas.
MergedBoxes merge_boxes(const Example& example, ImageSize content, ImageSize canvas);

}  // namespace osprey::data
