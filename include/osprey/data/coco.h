#pragma once
#include <memory>
#include <string>

#include "osprey/data/annotations.h"

namespace osprey::data {

struct CocoOptions {
  std::string input;      ///< an instances JSON file
  std::string image_dir;  ///< what `file_name` is relative to; "" searches the usual places
  std::string split;      ///< list of file names (with or without ending) or image ids to use; "" for all
};

/// COCO annotations, read as a stream: segmentations are passed over and never held in memory.
///
/// A picture is looked for by its file_name (a path of Windows, too), then by that without folders: in image_dir, or in
/// the folder of the subset that the JSON is called after (val2017, images/val2017 for instances_val2017.json), beside
/// the JSON, in images and data there and one folder above, and below these, if only one picture has the name. One in
/// another folder than its file_name says, or whose file_name says none while others of the set have the name, too, is
/// counted and not taken.
///
/// Ids may be any numbers. A new label map keeps category ids where they begin at 1 and are not scattered (the 90 of
/// COCO), else it numbers the categories in the order of their ids. A category 0 without objects, which some exporters
/// put first, is left out. Categories of one name become the first of them, counted. A file without annotations gives
/// pictures without objects. NaN and Infinity, which Python writes, are read: a box with them is left out, counted.
///
/// throws DataError: cannot be read, not JSON (with the byte offset), no images
std::unique_ptr<AnnotationSource> open_coco(const CocoOptions& options, Problems& problems);

}  // namespace osprey::data
