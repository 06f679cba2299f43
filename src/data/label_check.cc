#include "osprey/data/label_check.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <set>

#include "features.h"
#include "object_labels.h"
#include "osprey/base/clock.h"
#include "osprey/base/error.h"
#include "osprey/config/label_map.h"
#include "osprey/data/read_report.h"

namespace osprey::data {
namespace {

void count(const std::string& record, const RecordOrigin& origin, const config::LabelMap* map, LabelCensus& census) {
  const Features features(record, origin.describe());
  const std::vector<ObjectLabel> objects = object_labels(features, map);
  if (objects.empty() && !(features.ints("image/class/label").empty() && features.strings("image/class/text").empty()))
    ++census.labelled_pictures;
  for (const ObjectLabel& object : objects) {
    if (!object.has_id) {
      ++census.objects_of_unknown_text[*object.text];
      census.first_of_unknown_text.emplace(*object.text, origin);
      continue;
    }
    if (map != nullptr && !object.text_is_known && object.text != nullptr && !object.text->empty())
      ++census.objects_by_label[{*object.text, object.id}];
    ++census.objects_of_id[object.id];
    census.first_of_id.emplace(object.id, origin);
  }
}

// One line per id: what the map calls it, how often the records have it, and what is wrong.
std::string table(const LabelCensus& census, const LabelCheckOptions& options, bool& sound) {
  std::set<int64_t> ids;
  for (const auto& [id, objects] : census.objects_of_id) ids.insert(id);
  if (options.label_map != nullptr)
    for (const config::LabelMap::Item& item : options.label_map->items) ids.insert(item.id);
  std::string lines = fmt::format("\n  {:>6}  {:<24} {:>10}", "id", "label map", "records");
  constexpr int kShown = 40;
  int shown = 0;
  for (int64_t id : ids) {
    const config::LabelMap::Item* item = options.label_map != nullptr && id >= 1 && id <= options.label_map->max_id()
                                             ? options.label_map->find(static_cast<int>(id))
                                             : nullptr;
    const auto found = census.objects_of_id.find(id);
    const char* fault = fault_of_id(id, options.num_classes, options.label_map);
    const std::string wrong = fault != nullptr ? fmt::format("  <- {}", fault) : "";
    if (fault != nullptr) sound = false;
    if (fault == nullptr && ++shown > kShown) continue;
    const bool seen = found != census.objects_of_id.end();
    lines += fmt::format("\n  {:>6}  {:<24} {:>10}{}", id, item != nullptr ? item->shown() : "-",
                         seen ? found->second : 0, wrong);
    if (seen && fault != nullptr) lines += ", as in " + census.first_of_id.at(id).describe();
  }
  if (shown > kShown) lines += fmt::format("\n  ... and {} ids that agree", shown - kShown);
  for (const auto& [text, objects] : census.objects_of_unknown_text) {
    sound = false;
    lines += fmt::format("\n  {:>6}  {:<24} {:>10}  <- class text '{}' without a label, as in {}", "-", "-", objects,
                         text, census.first_of_unknown_text.at(text).describe());
  }
  return lines;
}

}  // namespace

LabelCensus check_labels(const ExampleIndex& index, const LabelCheckOptions& options) {
  const double start = now();
  const auto time_is_up = [&] { return now() - start > options.seconds; };
  LabelCensus census;
  // Every 64th record, then those between them: wherever time ends, the records seen are spread over all.
  constexpr int64_t kStride = 64;
  for (int64_t first = 0; first < kStride; ++first)
    for (int64_t i = first; i < index.size() && (census.records == 0 || !time_is_up()); i += kStride) {
      try {
        count(index.read(i), index.origin(i), options.label_map, census);
        ++census.records;
      } catch (const BadRecord& error) {  // counted by whoever reads it in earnest
        if (census.first_unusable.empty()) census.first_unusable = error.what();
      }
    }
  bool sound = true;
  const std::string lines = table(census, options, sound);
  if (!sound)
    throw ConfigError(
        fmt::format("{}: label map, num_classes ({}) and records disagree; {} of {} records were looked at{}",
                    options.reader, options.num_classes > 0 ? std::to_string(options.num_classes) : "not given",
                    census.records, index.size(), lines));
  if (census.records > 0 && census.objects_of_id.empty())
    SPDLOG_WARN("{}: none of the {} records looked at has an object{}", options.reader, census.records,
                census.labelled_pictures == 0
                    ? ""
                    : fmt::format("; {} have a label of the whole picture, which label_of_picture: true takes",
                                  census.labelled_pictures));
  constexpr size_t kShownTexts = 10;
  size_t shown_texts = 0;
  for (const auto& [text_and_id, objects] : census.objects_by_label) {
    if (++shown_texts > kShownTexts) break;
    SPDLOG_WARN(
        "{}: class text '{}' ({} objects of the {} records looked at) is not in the label map; by their label they "
        "count as class {}, '{}'",
        options.reader, text_and_id.first, objects, census.records, text_and_id.second,
        options.label_map->find(static_cast<int>(text_and_id.second))->shown());
  }
  if (shown_texts > kShownTexts)
    SPDLOG_WARN("{}: and so do {} more", options.reader, census.objects_by_label.size() - kShownTexts);
  return census;
}

}  // namespace osprey::data
