#pragma once
#include <string>
#include <vector>

#include "osprey/data/annotations.h"

namespace osprey::data {

/// The objects in the rows of a label file, see `open_kitti`. Rows that are none are left out, counted with file and
/// line.
std::vector<AnnotatedObject> kitti_objects(const std::vector<std::string>& lines, const std::string& file,
                                           Problems& problems);

}  // namespace osprey::data
