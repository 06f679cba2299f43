#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "osprey/core/batch.h"
#include "osprey/core/example.h"
#include "osprey/data/image_resizer.h"

namespace osprey::data {

/// What the batches of a run have in common.
struct BatchShape {
  int64_t batch_size = 1;
  std::optional<ImageSize> image;  ///< of the canvas; none: each batch's is as large as the largest of its pictures
  bool resize_later = false;       ///< pictures that fit stay as they are, and the batch has source_shapes
  int64_t channels = 3;
  int64_t max_boxes = 100;    ///< M
  int64_t num_classes = 0;    ///< C, for rows of classes
  bool float_images = false;  ///< float32 instead of uint8
  bool multi_label = false;   ///< classes are k-hot [B, M, C]: equal boxes become one row
  bool class_scores = false;  ///< otherwise, classes are the rows of multiclass_scores, [B, M, C]
  bool confidences = false;   ///< the batch carries label confidences
  bool pin_memory = false;
};

/// A batch in the making. Rows that no example is put into are padding: zeros, valid false, image weight 0.
class Collation {
 public:
  Collation() = default;  ///< of nothing
  Collation(const BatchShape& shape, std::shared_ptr<const ImageResizer> resizer);

  /// Resizes, unless that comes later, and writes an example into a row: each row once, from any thread.
  /// Boxes beyond max_boxes are left out (the first ones in the record stay).
  /// key      running number of the example in the run
  /// returns  how many boxes were left out
  int64_t put(int64_t row, const Example& example, int64_t key);

  /// The batch, when all rows are in it; to be called once.
  Batch finish();

 private:
  void put_picture(int64_t row, const at::Tensor& picture);
  at::Tensor on_canvas_of_its_own(const at::Tensor& picture) const;

  BatchShape shape_;
  std::shared_ptr<const ImageResizer> resizer_;
  Batch batch_;
  std::vector<at::Tensor> pictures_;  // [H, W, channels] of each row, until the batch's canvas is known
};

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
