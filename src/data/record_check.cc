#include "osprey/data/record_check.h"

#include <fmt/format.h>

#include <utility>

#include "features.h"
#include "object_labels.h"
#include "osprey/config/label_map.h"
#include "osprey/data/collate.h"
#include "osprey/data/decoder_builder.h"
#include "osprey/data/read_report.h"
#include "picture_label_index.h"

namespace osprey::data {
namespace {
using Effect = RecordProblem::Effect;
using Subject = RecordProblem::Subject;
using Problem = ReadReport::Problem;

const char* kind_of(BadRecord::Cause cause) {
  switch (cause) {
    case BadRecord::Cause::kNotAnExample:
      return "not a tf.Example";
    case BadRecord::Cause::kPicture:
      return "picture cannot be decoded";
    case BadRecord::Cause::kNoPicture:
      return "annotation or picture cannot be read";
    case BadRecord::Cause::kLengths:
      return "lists of different lengths";
    case BadRecord::Cause::kPixels:
      return "pixels in place of fractions";
    case BadRecord::Cause::kOther:
      break;
  }
  return "record cannot be used";
}

std::string kind_of(const ReadReport::Finding& finding) {
  switch (finding.problem) {
    case Problem::kClippedBox:
    case Problem::kDroppedBox:
      return "box " + finding.details.substr(0, finding.details.find(':'));  // "is inverted: ymin ..."
    case Problem::kRotatedImage:
      return "picture is turned upright";
    case Problem::kAmbiguousOrientation:
      return "picture is taken as stored in spite of its EXIF orientation";
    case Problem::kTextDisagrees:
      return "class text and label disagree";
    case Problem::kUnknownClass:
      break;
  }
  return "unknown class";
}

/// The boxes of a record as they stand there; none where its lists do not agree.
class StoredBoxes {
 public:
  explicit StoredBoxes(const Features& features)
      : ymin_(features.floats("image/object/bbox/ymin")),
        xmin_(features.floats("image/object/bbox/xmin")),
        ymax_(features.floats("image/object/bbox/ymax")),
        xmax_(features.floats("image/object/bbox/xmax")) {}
  std::optional<Box> at(int64_t box) const {
    const auto i = static_cast<size_t>(box);
    if (box < 0 || i >= ymin_.size() || i >= xmin_.size() || i >= ymax_.size() || i >= xmax_.size()) return {};
    return Box{ymin_[i], xmin_[i], ymax_[i], xmax_[i]};
  }

 private:
  std::span<const float> ymin_, xmin_, ymax_, xmax_;
};

DecoderOptions tolerant(DecoderOptions options) {
  if (options.invalid_boxes == DecoderOptions::InvalidBox::kFail)
    options.invalid_boxes = DecoderOptions::InvalidBox::kClip;
  options.allow_unknown_classes = true;
  return options;
}

RecordProblem::Subject subject_of(Problem problem) {
  switch (problem) {
    case Problem::kClippedBox:
    case Problem::kDroppedBox:
      return Subject::kBox;
    case Problem::kRotatedImage:
    case Problem::kAmbiguousOrientation:
      return Subject::kPicture;
    case Problem::kTextDisagrees:
    case Problem::kUnknownClass:
      break;
  }
  return Subject::kClass;
}

/// "class id 7"; "" for a class that is known.
std::string unknown_class(const ObjectLabel& object, int64_t num_classes, const config::LabelMap* map) {
  if (!object.has_id) return fmt::format("class '{}'", *object.text);
  return fault_of_id(object.id, num_classes, map) != nullptr ? fmt::format("class id {}", object.id) : "";
}

/// Why it is unknown.
const char* fault_of(const ObjectLabel& object, int64_t num_classes, const config::LabelMap* map) {
  if (object.has_id) return fault_of_id(object.id, num_classes, map);
  return map == nullptr ? "it takes label_map_path to find its id" : "not in the label map";
}

RecordProblem left_out(const BadRecord& error, const RecordOrigin& origin, const std::string& picture) {
  return {.subject = Subject::kRecord,
          .kind = kind_of(error.cause()),
          .effect = Effect::kRecordLeftOut,
          .origin = origin,
          .picture = picture,
          .values = {},
          .reason = reason_of(error, origin)};
}

}  // namespace

std::string describe(const RecordProblem& problem) {
  std::string text = problem.origin.describe() + ": ";
  if (!problem.picture.empty()) text += problem.picture + ": ";
  if (problem.box >= 0) text += fmt::format("box {}: ", problem.box);
  return text + problem.reason;
}

std::string reason_of(const DataError& error, const RecordOrigin& origin) {
  std::string reason = error.what();
  for (const std::string& where : {origin.describe() + ": ", origin.file + ": "})
    if (reason.starts_with(where)) reason.erase(0, where.size());
  return reason;
}

RecordChecker::RecordChecker(const config::ConfigNode<proto::InputReader>& reader, int64_t num_classes,
                             std::shared_ptr<const config::LabelMap> label_map)
    : RecordChecker(decoder_options(reader, num_classes), std::move(label_map)) {
  labels_pictures_ = reader->label_of_picture();
}

RecordChecker::RecordChecker(DecoderOptions options, std::shared_ptr<const config::LabelMap> label_map)
    : invalid_boxes_end_the_run_(options.invalid_boxes == DecoderOptions::InvalidBox::kFail),
      num_classes_(options.num_classes),
      label_map_(std::move(label_map)),
      decoder_(tolerant(options), label_map_) {}

CheckedRecord RecordChecker::unusable(const BadRecord& error, const RecordOrigin& origin) {
  CheckedRecord result;
  result.picture = origin.picture;
  result.problems.push_back(left_out(error, origin, ""));  // the origin says the picture
  return result;
}

CheckedRecord RecordChecker::check(std::string_view record, const RecordOrigin& origin) const {
  CheckedRecord result;
  bool usable = true;
  // Several parts may come upon one cause: a record is bad once.
  const auto attempt = [&](const auto& part) {
    try {
      part();
    } catch (const BadRecord& error) {
      if (std::exchange(usable, false)) result.problems.push_back(left_out(error, origin, result.picture));
    }
  };
  std::string labelled;
  if (labels_pictures_) {
    attempt([&] { labelled = with_picture_label(std::string(record), origin); });
    if (!usable) return result;
    record = labelled;
  }
  std::optional<Features> features;
  attempt([&] { features.emplace(record, origin.describe()); });
  if (!features) return result;
  attempt([&] {
    result.picture = features->first_string("image/filename");
    if (result.picture.empty()) result.picture = features->first_string("image/source_id");
  });
  ReadReport report(/*keep_findings=*/true);
  attempt([&] {
    Example example = decoder_.decode(record, origin, report);
    drop_unusable_objects(example);
    result.example = std::move(example);
  });
  std::optional<StoredBoxes> boxes;
  attempt([&] { boxes.emplace(*features); });
  const auto add = [&](Subject subject, std::string kind, Effect effect, int64_t box, std::string reason) {
    result.problems.push_back({.subject = subject,
                               .kind = std::move(kind),
                               .effect = effect,
                               .origin = origin,
                               .picture = result.picture,
                               .box = box,
                               .values = boxes ? boxes->at(box) : std::nullopt,
                               .reason = std::move(reason)});
  };
  attempt([&] {
    const std::vector<ObjectLabel> objects = object_labels(*features, label_map_.get());
    for (size_t i = 0; i < objects.size(); ++i) {
      std::string name = unknown_class(objects[i], num_classes_, label_map_.get());
      if (name.empty()) continue;
      add(Subject::kClass, "unknown class", Effect::kEndsRun, static_cast<int64_t>(i),
          name + ": " + fault_of(objects[i], num_classes_, label_map_.get()));
      result.unknown_classes.push_back(std::move(name));
    }
  });
  for (const ReadReport::Finding& finding : report.findings()) {
    if (finding.problem == Problem::kUnknownClass) continue;  // as above
    const bool is_box = finding.problem == Problem::kDroppedBox || finding.problem == Problem::kClippedBox;
    Effect effect = finding.problem == Problem::kDroppedBox ? Effect::kBoxLeftOut : Effect::kNoted;
    if (is_box && invalid_boxes_end_the_run_) effect = Effect::kEndsRun;
    add(subject_of(finding.problem), kind_of(finding), effect, finding.place.box, finding.details);
  }
  return result;
}

}  // namespace osprey::data
