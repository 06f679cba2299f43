#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "osprey/base/error.h"
#include "osprey/config/node.h"
#include "osprey/core/example.h"
#include "osprey/data/example_decoder.h"
#include "osprey/data/read_report.h"
#include "osprey/data/record_file.h"
#include "osprey/protos/input_reader.pb.h"

namespace osprey::data {

/// Something that is wrong with a record, or with a box of it.
struct RecordProblem {
  /// What a training does about it.
  enum class Effect { kNoted, kBoxLeftOut, kRecordLeftOut, kEndsRun };
  enum class Subject { kFile, kRecord, kPicture, kClass, kBox };

  Subject subject = Subject::kRecord;  ///< what is wrong
  std::string kind;  ///< "picture cannot be decoded", "box is inverted", "unknown class", ...; equal words, equal kind
  Effect effect = Effect::kNoted;
  RecordOrigin origin;
  std::string picture;        ///< name of the picture's file, else the source id; "" where nobody knows
  int64_t box = -1;           ///< index in the record; -1: the whole record
  std::optional<Box> values;  ///< of that box, as the record has them
  std::string reason;         ///< the decoder's words
};

/// "train.record: record 12 (byte 34567): photo.jpg: box 3: is inverted: ymin ..."
std::string describe(const RecordProblem& problem);

/// The words of an error, without the place where they begin with it.
std::string reason_of(const DataError& error, const RecordOrigin& origin);

struct CheckedRecord {
  std::string picture;             ///< as in RecordProblem
  std::optional<Example> example;  ///< decoded, with the boxes that a training would see; nothing where none would
  std::vector<RecordProblem> problems;
  /// "class id 7", "class 'cat'": one for each box of such a class, also where the record cannot be used: a training
  /// looks at the classes of all records before it reads them.
  std::vector<std::string> unknown_classes;
};

/// Says all that is wrong with single records, where a reader would stop at the first thing or only count. For any
/// number of threads.
class RecordChecker {
 public:
  /// The arguments of `build_example_decoder`, and its errors.
  RecordChecker(const config::ConfigNode<proto::InputReader>& reader, int64_t num_classes,
                std::shared_ptr<const config::LabelMap> label_map);

  CheckedRecord check(std::string_view record, const RecordOrigin& origin) const;

  /// Of one that cannot even be read: an annotated picture that is not there.
  static CheckedRecord unusable(const BadRecord& error, const RecordOrigin& origin);

 private:
  RecordChecker(DecoderOptions options, std::shared_ptr<const config::LabelMap> label_map);

  bool invalid_boxes_end_the_run_;
  bool labels_pictures_ = false;
  int64_t num_classes_;
  std::shared_ptr<const config::LabelMap> label_map_;
  ExampleDecoder decoder_;
};

}  // namespace osprey::data
