#pragma once
#include <memory>
#include <string>

#include "osprey/data/annotations.h"

namespace osprey::data {

struct CvatOptions {
  std::string input;      ///< an XML file, or a folder with annotations.xml or labels.xml
  std::string image_dir;  ///< what names are relative to; "" searches the usual places, as for COCO
  std::string split;      ///< a subset of the file, or a list of names (with or without ending) to use; "" for all
};

/// "CVAT for images 1.1": one XML file for all pictures, as CVAT and FiftyOne write it.
///
/// A picture is called as its `name`, behind the folder of its `subset` where it has one, and looked for as those of
/// COCO are. Coordinates are pixels of the annotated `width` and `height` and are taken as they stand. Of a polygon, an
/// ellipse, a mask and a turned box the box around it is taken and its area kept, counted; polylines, points,
/// skeletons, cuboids and tags are no boxes and left out, counted. The attributes `difficult`, `truncated`, `is_crowd`
/// and `is_group_of` of an object are its flags where they are "true" or a number above 0; `occluded` has no place in a
/// record.
///
/// A new label map numbers the labels of <meta> in their order, those without objects, too, and then what other labels
/// objects have, alphabetically. Parts of skeletons and labels of a type that has no boxes only count with a box.
///
/// throws DataError: cannot be read, not XML (with the byte offset), no pictures, "CVAT for video"; ConfigError: a split
///        that is neither
/// source  https://docs.cvat.ai/docs/other/xml_format
std::unique_ptr<AnnotationSource> open_cvat(const CvatOptions& options, Problems& problems);

}  // namespace osprey::data
