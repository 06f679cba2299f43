#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "osprey/data/annotations.h"

namespace osprey::data {

/// What the numbers of a label file mean.
struct YoloLabelOptions {
  std::map<int64_t, std::string> names;  ///< of classes, by their ids from 0
  int64_t keypoint_numbers = 0;          ///< that follow each box, in a set of poses
};

/// The objects of a label file: lines of a class id, the centre of a box, its width and height as fractions of the
/// picture. A sixth number, a confidence, is read past; of an outline (three points or more) the box around it is
/// taken, and its area.
///
/// lines          of the file; blank ones are passed over
/// height, width  of the picture, which make pixels of the fractions
/// What is no object is counted in `problems`, with file and line.
std::vector<AnnotatedObject> yolo_objects(const std::vector<std::string>& lines, const std::string& file,
                                          int64_t height, int64_t width, const YoloLabelOptions& options,
                                          Problems& problems);

}  // namespace osprey::data
