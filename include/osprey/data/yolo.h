#pragma once
#include <memory>
#include <string>

#include "osprey/data/annotations.h"

namespace osprey::data {

struct YoloOptions {
  std::string input;      ///< data.yaml, dataset.yaml, obj.data or classes.txt, or a folder with one of them
  std::string image_dir;  ///< where pictures lie; "": where the data set says
  std::string split;  ///< "train", "val", ... of the data set, or a list of pictures to use; "": train, if it has one
};

/// A YOLO data set: a text file of class ids and fractions for each picture, as Ultralytics, Darknet, CVAT, Label
/// Studio, Roboflow and FiftyOne write them.
///
/// The labels of a picture lie where `labels` stands for the last `images` of its path, or beside it; a picture without
/// them has no objects, which is counted. Paths of other machines and with backslashes are found by their last parts,
/// a folder never as `images` alone, which may be those of any split. A picture that lists spell in several ways is
/// read once. Fractions are of the picture as it is seen: one that is stored lying gets the size that it has upright,
/// which makes readers turn it. Class id i gets id i + 1 in a new label map.
///
/// throws DataError: no data set, a description that says too little or what is not read here (with file and line), no
///        pictures, not one file of labels; ConfigError: a split that it does not have
std::unique_ptr<AnnotationSource> open_yolo(const YoloOptions& options, Problems& problems);

}  // namespace osprey::data
