#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "osprey/data/annotations.h"

namespace osprey::data {

struct CreateRecordsOptions {
  using Format = AnnotationFormat;
  Format format = Format::kVoc;
  std::string input, image_dir, split, class_descriptions;  ///< as in `AnnotationSet`; unused by shapes
  std::string label_map;                                    ///< obeyed where the file exists, else written
  /// "train.record", or with shards "train.record-00000-of-00010" ...; "train-?????-of-00010.tfrecord" stands for as
  /// many shards with the number in the place of the question marks
  std::string output;
  int num_shards = 1;
  int64_t num_images = 0;  ///< the first so many; 0: all (shapes: 1000)
  uint64_t seed = 0;       ///< of shapes
  int num_workers = 0;     ///< 0: one per processor
};

struct CreateRecordsResult {
  int64_t num_images = 0, num_objects = 0;
  std::map<std::string, int64_t> objects_of_class;
  std::vector<std::string> files;  ///< written, in order
  bool label_map_written = false;
  std::vector<std::string> problems;  ///< one line for each kind
};

/// Writes annotated pictures as tf.Example records.
///
/// Pictures are copied byte by byte; each is decoded once to see that it can be. A picture that is missing or damaged
/// is left out and counted. Boxes are cut to the picture; empty and inverted ones and those of classes that the label
/// map does not have are left out and counted. Output appears whole at the end or not at all; nothing else is written
/// or changed. The same input gives the same bytes for any number of workers.
///
/// progress  called from time to time with pictures done and their total; may be empty
/// throws    ConfigError: options that do not go together, a label map that has none of the classes; DataError:
///           nothing to read, no picture or no object usable, a file that cannot be written
CreateRecordsResult create_records(const CreateRecordsOptions& options,
                                   const std::function<void(int64_t done, int64_t total)>& progress = {});

}  // namespace osprey::data
