#pragma once
#include <memory>
#include <string>

#include "osprey/data/annotations.h"

namespace osprey::data {

struct CsvOptions {
  std::string input;               ///< a CSV file
  std::string image_dir;           ///< what file names are relative to; "" searches the usual places, as for COCO
  std::string split;               ///< list of file names (with or without ending) to use; "" for all
  std::string class_descriptions;  ///< CSV file of class and display name, without a header; "" for none
};

/// Annotations with a line for each box, in one of three forms:
///
///     filename,width,height,class,xmin,ymin,xmax,ymax       a header; pixels. Columns in any order, others are ignored;
///                                                           width and height may be missing
///     ImageID,Source,LabelName,...,XMin,XMax,YMin,YMax,...  Open Images: a header with ImageID; fractions of the
///                                                           picture as it is seen. IsGroupOf, IsTruncated: 1 is yes
///     path,x1,y1,x2,y2,class                                no header (keras-retinanet); pixels
///
/// Names of columns are read in any case; x1, y1, x2, y2, image, path, label and the like are understood, too. Commas,
/// or semicolons or tabs where the first line has no comma; fields may be quoted, within one line. A row whose
/// coordinates are all empty says that the picture has no objects. Pictures come in the order of their first rows.
/// Classes of a new label map are numbered in alphabetical order. An ImageID stands for the picture of that name with
/// the ending that it is found with, .jpg first.
///
/// throws DataError: cannot be read, a first line that is none of these, no pictures, a split that names none of them
std::unique_ptr<AnnotationSource> open_csv(const CsvOptions& options, Problems& problems);

}  // namespace osprey::data
