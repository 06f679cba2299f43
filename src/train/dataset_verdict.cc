#include "train/dataset_verdict.h"

#include <fmt/format.h>

#include <algorithm>

namespace osprey::train {
namespace {
using Subject = data::RecordProblem::Subject;

std::string counted(int64_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

void judge_unusable_records(ReaderCheck& check, const proto::InputReader& reader, const data::SourceOptions& source) {
  const int64_t bad = check.unusable_records, all = check.records_read;
  if (bad == 0) return;
  const std::string records = counted(bad, "record", "records");
  if (reader.corrupt_image_policy() != proto::InputReader::SKIP)
    check.stops.push_back(records + " cannot be used, and corrupt_image_policy is FAIL_ON_CORRUPT");
  else if (!source.training && !reader.has_corrupt_image_policy())
    check.stops.push_back(records + " cannot be used; corrupt_image_policy: SKIP leaves such records out");
  else if (source.training && static_cast<double>(bad) / static_cast<double>(all) > source.max_bad_fraction)
    check.stops.push_back(fmt::format("{} of {} records cannot be used, more than max_bad_fraction {:g}", bad, all,
                                      source.max_bad_fraction));
  else if (source.training && bad == all)
    check.stops.push_back(fmt::format("none of {} records can be used", bad));
  else
    check.warnings.push_back(records + " left out, for they cannot be used");
}

void judge_boxes(ReaderCheck& check, bool strict) {
  if (check.invalid_boxes > 0)
    check.stops.push_back(fmt::format("invalid_box_policy is FAIL; invalid boxes: {}", check.invalid_boxes));
  if (check.crowded_pictures > 0)
    (strict ? check.stops : check.warnings)
        .push_back(fmt::format("{} more boxes than max_number_of_boxes, {}: {}",
                               counted(check.crowded_pictures, "picture has", "pictures have"), check.max_boxes,
                               strict ? "an error with strict"
                                      : counted(check.boxes_beyond_max, "box is left out", "boxes are left out")));
  if (check.pictures > 0 && check.boxes == 0) check.warnings.emplace_back("no picture has a box");
}

void judge_classes(ReaderCheck& check, const config::LabelMap* label_map) {
  std::string unknown, without;
  for (const auto& [name, boxes] : check.unknown_classes)
    unknown += fmt::format("{}{} ({})", unknown.empty() ? "" : ", ", name, counted(boxes, "box", "boxes"));
  if (!unknown.empty()) check.stops.push_back("label map, num_classes and records disagree: unknown are " + unknown);
  if (label_map == nullptr || check.boxes == 0) return;
  for (const config::LabelMap::Item& item : label_map->items)
    if (check.classes[static_cast<size_t>(item.id) - 1].boxes == 0)
      without += (without.empty() ? "" : ", ") + item.shown();
  if (!without.empty()) check.warnings.push_back("classes of the label map without a box: " + without);
}

}  // namespace

void judge(ReaderCheck& check, const proto::InputReader& reader, const data::SourceOptions& source,
           const config::LabelMap* label_map) {
  const int64_t unreadable = std::ranges::count(check.problems, Subject::kFile, &data::RecordProblem::subject);
  if (unreadable > 0)
    check.stops.push_back(counted(unreadable, "place", "places") + " where a file is damaged or cannot be read");
  else if (check.records_read == 0 && check.stops.empty())
    check.stops.push_back(
        fmt::format("0 examples in {}", counted(static_cast<int64_t>(check.files.size()), "file", "files")));
  judge_classes(check, label_map);
  judge_boxes(check, source.strict);
  judge_unusable_records(check, reader, source);
}

}  // namespace osprey::train
