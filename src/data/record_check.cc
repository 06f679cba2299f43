#include "osprey/data/record_check.h"

#include <fmt/format.h>

#include "features.h"
#include "osprey/config/label_map.h"
#include "osprey/data/collate.h"
#include "osprey/data/decoder_builder.h"
#include "osprey/data/read_report.h"

namespace osprey::data {
namespace {
using Effect = RecordProblem::Effect;
using Problem = ReadReport::Problem;

const char* kind_of(BadRecord::Cause cause) {
  switch (cause) {
    case BadRecord::Cause::kNotAnExample:
      return "not a tf.Example";
    case BadRecord::Cause::kPicture:
      return "picture cannot be decoded";
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

}  // namespace

std::string describe(const RecordProblem& problem) {
  std::string text = problem.origin.describe() + ": ";
  if (!problem.picture.empty()) text += problem.picture + ": ";
  if (problem.box >= 0) text += fmt::format("box {}: ", problem.box);
  return text + problem.reason;
}

RecordChecker::RecordChecker(const config::ConfigNode<proto::InputReader>& reader, int64_t num_classes,
                             std::shared_ptr<const config::LabelMap> label_map)
    : RecordChecker(decoder_options(reader, num_classes), std::move(label_map)) {}

RecordChecker::RecordChecker(DecoderOptions options, std::shared_ptr<const config::LabelMap> label_map)
    : invalid_boxes_end_the_run_(options.invalid_boxes == DecoderOptions::InvalidBox::kFail),
      decoder_(tolerant(options), std::move(label_map)) {}

CheckedRecord RecordChecker::check(std::string_view record, const RecordOrigin& origin) const {
  CheckedRecord result;
  const auto bad = [&](const BadRecord& error) {
    std::string reason = error.what();
    if (const std::string where = origin.describe() + ": "; reason.starts_with(where)) reason.erase(0, where.size());
    result.problems.push_back(
        {kind_of(error.cause()), Effect::kRecordLeftOut, origin, result.picture, -1, {}, std::move(reason)});
  };
  ReadReport report(/*keep_findings=*/true);
  try {
    const Features features(record, origin.describe());
    result.picture = features.first_string("image/filename");
    if (result.picture.empty()) result.picture = features.first_string("image/source_id");
    try {
      Example example = decoder_.decode(record, origin, report);
      drop_unusable_objects(example);
      result.example = std::move(example);
    } catch (const BadRecord& error) {
      bad(error);
    }
    const StoredBoxes boxes(features);
    for (const ReadReport::Finding& finding : report.findings()) {
      RecordProblem problem{kind_of(finding), Effect::kNoted,    origin,
                            result.picture,   finding.place.box, boxes.at(finding.place.box),
                            finding.details};
      if (finding.problem == Problem::kUnknownClass) {
        problem.effect = Effect::kEndsRun;
        result.unknown_classes.push_back(finding.details.substr(0, finding.details.rfind(':')));
      } else if (finding.problem == Problem::kDroppedBox || finding.problem == Problem::kClippedBox) {
        if (finding.problem == Problem::kDroppedBox) problem.effect = Effect::kBoxLeftOut;
        if (invalid_boxes_end_the_run_) problem.effect = Effect::kEndsRun;
      }
      result.problems.push_back(std::move(problem));
    }
  } catch (const BadRecord& error) {
    bad(error);
  }
  return result;
}

}  // namespace osprey::data
