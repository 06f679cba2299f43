#pragma once
#include <memory>
#include <string>

#include "osprey/data/annotations.h"

namespace osprey::data {

struct VocOptions {
  std::string input;      ///< folder that is searched for XML files with everything below it, or one XML file
  std::string image_dir;  ///< where pictures lie; "" searches the usual places
  std::string split;      ///< list of the names (of XML files, without ending) to use; "" for all
};

/// Pascal VOC annotations: one XML file per picture.
///
/// A picture is found by the file name in its XML, or the name of the XML itself: in image_dir, or in JPEGImages,
/// images and data beside the folder of the XML and in the folders between it and `input`, there first in the folder of
/// the subset that the XML is in, or beside the XML; else below these, if only one picture has the name. One in another
/// folder than the XML says, or that XMLs of several folders ask for, is counted and not taken. Coordinates are taken
/// as they stand: box_px = (xmin, ymin, xmax, ymax), which makes a box over the whole picture (0 or 1, 0 or 1, width,
/// height). An object is difficult or truncated where its XML says "true", in any case, or a number above 0. Classes of
/// a new label map are numbered in alphabetical order.
///
/// throws DataError: no XML files, a split that names none of them
std::unique_ptr<AnnotationSource> open_voc(const VocOptions& options, Problems& problems);

}  // namespace osprey::data
