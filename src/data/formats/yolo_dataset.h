#pragma once
#include <string>
#include <vector>

#include "osprey/data/annotations.h"
#include "yolo_labels.h"

namespace osprey::data {

/// Where a YOLO data set has its parts.
struct YoloDataset {
  struct Split {
    std::string name;                 ///< "train", ...; "" of a data set without splits
    std::vector<std::string> places;  ///< folders of pictures, or lists of them, as the description spells them
    std::string origin;               ///< where that is said
  };
  std::string file;                  ///< that describes it
  std::vector<std::string> folders;  ///< that paths may begin in; the first comes first
  YoloLabelOptions labels;
  std::vector<Split> splits;
};

/// input  data.yaml or the like, obj.data, classes.txt, obj.names, or a folder with one of them
/// throws DataError: none of these, or it says too little or what is not read here (with file and line)
YoloDataset read_yolo_dataset(const std::string& input, Problems& problems);

/// Whether two names mean the same split: `val`, `valid` and `validation` do.
bool same_split(const std::string& a, const std::string& b);

}  // namespace osprey::data
