#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "osprey/data/example_index.h"

namespace osprey::config {
struct LabelMap;
}

namespace osprey::data {

struct LabelCheckOptions {
  std::string reader = "input reader";          ///< how messages call the records
  int64_t num_classes = 0;                      ///< of the model; 0: not given
  const config::LabelMap* label_map = nullptr;  ///< may be null
  double seconds = 1;  ///< about so long is looked; then the rest is taken on trust until it is read
};

/// What was seen of the labels.
struct LabelCensus {
  int64_t records = 0;                                     ///< looked at, spread evenly over all
  std::map<int64_t, int64_t> objects_of_id;                ///< by class label, 1-based
  std::map<std::string, int64_t> objects_of_unknown_text;  ///< without a label, and not in the label map
  /// By text and label: the text is not in the label map, so the label decides.
  std::map<std::pair<std::string, int64_t>, int64_t> objects_by_label;
  std::map<int64_t, RecordOrigin> first_of_id;  ///< a record that has it
  std::map<std::string, RecordOrigin> first_of_unknown_text;
  int64_t labelled_pictures = 0;  ///< records that have no object, but a label of the picture
  std::string first_unusable;     ///< what is wrong with the first that was passed over; "" where none was
};

/// Compares label map, num_classes and the labels in the records before the first step, without decoding a picture.
/// Records that are bad for other reasons are passed over. Texts that the map does not have, while the label beside
/// them names one of its classes, are warned of with that class, and records that are all without objects, of which
/// some may have a label of the whole picture.
/// throws  ConfigError with a table of all ids where the three disagree: an id below 1 or above num_classes or not
///         in the map, a text that the map does not have; and where the map itself has ids above num_classes
LabelCensus check_labels(const ExampleIndex& index, const LabelCheckOptions& options);

}  // namespace osprey::data
