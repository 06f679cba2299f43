#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "osprey/config/pipeline.h"
#include "osprey/data/record_check.h"

namespace osprey::train {

/// Boxes by a measure of theirs. The last entries are of those that are below none of the limits.
template <size_t kLimits>
struct BoxCounts {
  std::array<int64_t, kLimits + 1> boxes{};
  std::array<int64_t, kLimits + 1> reached{};  ///< of them, what an anchor overlaps by matched_threshold or more
};

/// By their longer side, in pixels of the network's input.
struct BoxSizes : BoxCounts<5> {
  static constexpr std::array<int, 5> kBelow = {8, 16, 32, 64, 128};
};

/// By width divided by height, both in pixels of the network's input.
struct BoxShapes : BoxCounts<6> {
  static constexpr std::array<double, 6> kBelow = {0.25, 0.5, 0.8, 1.25, 2, 4};
};

/// What the records of one input reader hold, and what is wrong with them.
struct ReaderCheck {
  struct Class {
    std::string name;
    int64_t boxes = 0, pictures = 0;
  };
  /// A picture worth looking at.
  struct Picture {
    data::RecordOrigin origin;
    std::string name;
    int64_t problems = 0, boxes = 0;
  };

  std::string reader;  ///< "train_input_reader", "eval_input_reader[0]"
  std::vector<std::string> files;
  int64_t records = 0;
  int64_t records_read = 0;      ///< of them, those that the reader takes: fewer with sample_1_of_n_examples
  int64_t pictures = 0;          ///< records that can be used
  int64_t boxes = 0;             ///< as a training would see them: cut to the picture, of known classes
  int64_t weightless_boxes = 0;  ///< of them, those of weight 0: nothing is learnt of them, and no table has them
  int64_t pictures_without_boxes = 0;
  int64_t max_boxes = 0;         ///< max_number_of_boxes; 0: as many as there are
  int64_t crowded_pictures = 0;  ///< of records_read, with more boxes than that after merge_multiple_label_boxes
  int64_t boxes_beyond_max = 0;
  int64_t unusable_records = 0;  ///< of records_read
  int64_t invalid_boxes = 0;     ///< of records_read, where invalid_box_policy is FAIL
  Picture most_boxes;
  std::vector<Class> classes;                                 ///< by 0-based class
  std::map<std::string, int64_t> unknown_classes;             ///< boxes by "class id 7" or "class 'cat'"
  std::map<std::pair<int64_t, int64_t>, int64_t> size_count;  ///< pictures by height and width in pixels
  BoxSizes box_sizes;
  BoxShapes box_shapes;
  std::optional<float> matched_threshold;     ///< none: there are no anchors to compare with, `reached` is 0
  std::vector<data::RecordProblem> problems;  ///< all, in the order of files, records and boxes
  std::vector<std::string> stops;             ///< why a training or evaluation would end
  std::vector<std::string> warnings;
  std::vector<Picture> worst;  ///< the most problems first, then the most boxes
};

/// Whether other anchors would fit the training's boxes better.
struct AnchorSearch {
  int64_t boxes = 0;    ///< a sample of them
  int64_t reached = 0;  ///< of them, what an anchor of the config overlaps by matched_threshold or more
  struct Proposal {
    int64_t reached = 0;           ///< with the proposed anchors, which are as many
    std::string anchor_generator;  ///< what to write into the model in the place of its anchor_generator
  };
  std::optional<Proposal> proposal;  ///< none: a search found none that reach notably more
};

struct DatasetCheck {
  std::vector<ReaderCheck> readers;
  bool finds_boxes = true;              ///< false: the model is a classifier of whole pictures
  std::optional<AnchorSearch> anchors;  ///< none: there are too few boxes, or anchors of a kind that is not searched
  bool would_stop() const;
};

struct DatasetCheckOptions {
  int num_workers = 0;   ///< threads; 0: one per processor
  int num_pictures = 0;  ///< length of `worst`
};

/// Reads every record of train_input_reader and of all eval_input_readers, as a training and its evaluations would, and
/// goes on where they would stop; of sample_1_of_n_examples all n are read. A few pictures at a time are in memory, and
/// all problems. Where the config leaves num_classes to the label map, it is set.
///
/// throws  ConfigError for what the config gets wrong, before the first record: also what `data::check_source` refuses,
///         and where label map and num_classes disagree
DatasetCheck check_dataset(config::Pipeline& pipeline, const DatasetCheckOptions& options);

/// For people: of each kind of problem its count and the first few.
std::string dataset_text(const DatasetCheck& check);

/// One JSON object with all problems, ending with a newline. Keys: would_stop, readers (a list; each with the fields of
/// ReaderCheck). Values of boxes that are not finite are the strings "nan", "inf" and "-inf".
std::string dataset_json(const DatasetCheck& check);

/// Draws the worst pictures of all readers, num_pictures at most: 01_train_input_reader_photo.jpg, ... Boxes have the
/// colours of their classes; what is wrong with one stands in red beside the box as it is in the record.
/// Records that cannot be read are passed over.
/// returns  the files
/// throws   DataError where one cannot be written
std::vector<std::string> draw_worst(const config::Pipeline& pipeline, const DatasetCheck& check, int num_pictures,
                                    const std::string& folder);

}  // namespace osprey::train
