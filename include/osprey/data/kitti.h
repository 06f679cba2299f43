#pragma once
#include <memory>
#include <string>

#include "osprey/data/annotations.h"

namespace osprey::data {

struct KittiOptions {
  std::string input;      ///< folder that is searched for folders of labels with everything below it, or one of these
  std::string image_dir;  ///< where pictures lie; "": beside the labels
  std::string split;      ///< list of the names (with or without folders and endings) to use; "" for all
};

/// KITTI's object labels: a text file for each picture, as the benchmark, CVAT, Datumaro and FiftyOne write them.
///
/// Labels lie in folders called label_2, label_02 or labels, pictures under the same names in image_2, image_02, images
/// or data beside these; with image_dir in the folder of this kind below it, or in itself, which for labels of
/// "training" may be below its "training". A picture without labels has no objects, which is counted.
///
/// A row is "type truncated occluded alpha left top right bottom", seven numbers on the object in space and, of
/// detections, a score. Coordinates are pixels of the picture as it is seen: one that is stored lying gets the size
/// that it has upright, which makes readers turn it. An object is truncated where its row says more than 0. `DontCare`
/// is a region in which nobody looked for objects, not a class: such rows are left out, counted. Classes of a new label
/// map are numbered in alphabetical order.
///
/// throws DataError: no folder of labels, a split that names no picture
/// source  Geiger et al., "Are we ready for Autonomous Driving? The KITTI Vision Benchmark Suite", CVPR 2012; readme of
///         its object development kit
std::unique_ptr<AnnotationSource> open_kitti(const KittiOptions& options, Problems& problems);

}  // namespace osprey::data
