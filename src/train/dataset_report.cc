#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "osprey/base/json_text.h"
#include "osprey/train/dataset_check.h"

namespace osprey::train {
namespace {
using Json = nlohmann::ordered_json;
using Effect = data::RecordProblem::Effect;

constexpr size_t kShownProblems = 3;  ///< of each kind, to people

double percent(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

/// Names come from files: bytes that would steer a terminal are written as \x1b.
/// kept  a control byte that stays
std::string printable(std::string_view text, char kept = '\0') {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    const bool before_c1 = byte == 0xc2 && next >= 0x80 && next < 0xa0;  // U+0080 to U+009F
    const bool steers = byte < 0x20 || byte == 0x7f || before_c1;
    if (!steers || (byte != 0 && text[i] == kept)) {
      result += text[i];
      continue;
    }
    result += fmt::format("\\x{:02x}", byte);
    if (!before_c1) continue;
    result += fmt::format("\\x{:02x}", next);
    ++i;
  }
  return result;
}

const char* effect_text(Effect effect) {
  switch (effect) {
    case Effect::kBoxLeftOut:
      return "box left out";
    case Effect::kRecordLeftOut:
      return "record left out";
    case Effect::kEndsRun:
      return "ends the run";
    case Effect::kNoted:
      break;
  }
  return "noted";
}

std::string counts_text(const ReaderCheck& reader) {
  std::string text = fmt::format(
      "  files {}, records {}{}, pictures {}, boxes {}{}\n  pictures without boxes: {} ({:.1f} %)\n",
      reader.files.size(), reader.records,
      reader.records_read < reader.records ? fmt::format(" ({} by sample_1_of_n_examples)", reader.records_read) : "",
      reader.pictures, reader.boxes,
      reader.weightless_boxes > 0
          ? fmt::format(" ({} of weight 0, of which nothing is learnt)", reader.weightless_boxes)
          : "",
      reader.pictures_without_boxes, percent(reader.pictures_without_boxes, reader.pictures));
  if (reader.pictures == 0) return text;
  text += fmt::format("  boxes per picture: {:.1f} on average, {} at most ({}); max_number_of_boxes {}\n",
                      static_cast<double>(reader.boxes) / static_cast<double>(reader.pictures), reader.most_boxes.boxes,
                      printable(reader.most_boxes.name),
                      reader.max_boxes > 0 ? std::to_string(reader.max_boxes) : "as in the data");
  const auto area = [](const auto& entry) { return entry.first.first * entry.first.second; };
  const auto [small, large] = std::ranges::minmax_element(reader.size_count, {}, area);
  const auto common = std::ranges::max_element(reader.size_count, {}, [](const auto& entry) { return entry.second; });
  const auto size = [](const auto& entry) { return fmt::format("{}x{}", entry->first.second, entry->first.first); };
  return text + fmt::format("  sizes (width x height): {} smallest, {} largest, {} most frequent ({} pictures)\n",
                            size(small), size(large), size(common), common->second);
}

/// Which boxes an entry of BoxCounts has.
template <class Counts>
std::string entry_name(const Counts&, size_t entry) {
  const auto& limits = Counts::kBelow;
  if (entry == limits.size()) return fmt::format("{} and more", limits.back());
  return entry == 0 ? fmt::format("below {}", limits[0]) : fmt::format("{} to {}", limits[entry - 1], limits[entry]);
}

/// A table of boxes by a measure.
template <class Counts>
std::string boxes_text(const ReaderCheck& reader, const Counts& counts, const char* measure, const char* unit) {
  const int64_t all = reader.boxes - reader.weightless_boxes;
  if (all == 0) return "";
  std::string text = fmt::format("  boxes by {}:\n    {:<14} {:>9} {:>7}", measure, unit, "boxes", "share");
  if (reader.matched_threshold) text += fmt::format("  with an anchor at IoU >= {:g}", *reader.matched_threshold);
  int64_t reached = 0;
  for (size_t i = 0; i < counts.boxes.size(); ++i) {
    const int64_t boxes = counts.boxes[i];
    reached += counts.reached[i];
    text += fmt::format("\n    {:<14} {:>9} {:>5.1f} %", entry_name(counts, i), boxes, percent(boxes, all));
    if (reader.matched_threshold && boxes > 0) text += fmt::format("  {:>5.1f} %", percent(counts.reached[i], boxes));
  }
  if (reader.matched_threshold)
    text += fmt::format("\n    {:<14} {:>9} {:>7}  {:>5.1f} %", "all", all, "", percent(reached, all));
  return text + "\n";
}

std::string anchors_text(const AnchorSearch& search, double threshold) {
  std::string text = fmt::format("# anchors\n  {:.1f} % of {} boxes have one at IoU >= {:g}; ",
                                 percent(search.reached, search.boxes), search.boxes, threshold);
  if (!search.proposal) return text + "no others, as many, were found that reach 2 % more\n\n";
  text += fmt::format("{:.1f} % with as many of these in the place of the model's:\n",
                      percent(search.proposal->reached, search.boxes));
  std::istringstream lines(search.proposal->anchor_generator);
  for (std::string line; std::getline(lines, line);) text += "    " + line + "\n";
  return text + "\n";
}

std::string classes_text(const ReaderCheck& reader) {
  std::string text = fmt::format("  {:>4}  {:<24} {:>9} {:>9}\n", "id", "class", "boxes", "pictures");
  for (size_t i = 0; i < reader.classes.size(); ++i) {
    const ReaderCheck::Class& row = reader.classes[i];
    if (row.boxes == 0 && row.name == std::to_string(i + 1)) continue;  // a gap of the label map
    text += fmt::format("  {:>4}  {:<24} {:>9} {:>9}\n", i + 1, printable(row.name), row.boxes, row.pictures);
  }
  for (const auto& [name, boxes] : reader.unknown_classes)
    text += fmt::format("  {:>4}  {:<24} {:>9}  <- unknown\n", "-", printable(name), boxes);
  return text;
}

std::string problems_text(const ReaderCheck& reader) {
  std::vector<std::vector<const data::RecordProblem*>> kinds;
  for (const data::RecordProblem& problem : reader.problems) {
    const auto same = [&](const auto& kind) {
      return kind[0]->kind == problem.kind && kind[0]->effect == problem.effect;
    };
    const auto found = std::ranges::find_if(kinds, same);
    (found == kinds.end() ? kinds.emplace_back() : *found).push_back(&problem);
  }
  std::string text;
  for (const auto& kind : kinds) {
    text += fmt::format("  {} x {} ({})\n", kind.size(), kind[0]->kind, effect_text(kind[0]->effect));
    for (size_t i = 0; i < std::min(kind.size(), kShownProblems); ++i)
      text += "    " + printable(describe(*kind[i])) + "\n";
    if (kind.size() > kShownProblems) text += fmt::format("    and {} more\n", kind.size() - kShownProblems);
  }
  return text;
}

Json coordinate(float value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

Json to_json(const ReaderCheck::Picture& picture) {
  return {{"file", picture.origin.file},
          {"record", picture.origin.record},
          {"picture", picture.name},
          {"problems", picture.problems},
          {"boxes", picture.boxes}};
}

Json to_json(const data::RecordProblem& problem) {
  Json json = {{"kind", problem.kind},
               {"effect", effect_text(problem.effect)},
               {"file", problem.origin.file},
               {"record", problem.origin.record},
               {"offset", problem.origin.offset},
               {"picture", problem.picture}};
  if (problem.box >= 0) json["box"] = problem.box;
  if (const auto& box = problem.values)
    json["values"] = {{"ymin", coordinate(box->ymin)},
                      {"xmin", coordinate(box->xmin)},
                      {"ymax", coordinate(box->ymax)},
                      {"xmax", coordinate(box->xmax)}};
  json["reason"] = problem.reason;
  return json;
}

template <class Counts>
Json to_json(const Counts& counts, bool with_reached) {
  Json rows = Json::array();
  for (size_t i = 0; i < counts.boxes.size(); ++i) {
    Json row = {{"below", nullptr}, {"boxes", counts.boxes[i]}};
    if (i < Counts::kBelow.size()) row["below"] = Counts::kBelow[i];
    if (with_reached) row["reached"] = counts.reached[i];
    rows.push_back(row);
  }
  return rows;
}

Json to_json(const AnchorSearch& search) {
  Json json = {{"boxes", search.boxes}, {"reached", search.reached}, {"proposal", nullptr}};
  if (search.proposal)
    json["proposal"] = {{"reached", search.proposal->reached}, {"anchor_generator", search.proposal->anchor_generator}};
  return json;
}

Json to_json(const ReaderCheck& reader) {
  Json json = {{"reader", reader.reader},
               {"files", reader.files},
               {"records", reader.records},
               {"records_read", reader.records_read},
               {"pictures", reader.pictures},
               {"boxes", reader.boxes},
               {"weightless_boxes", reader.weightless_boxes},
               {"pictures_without_boxes", reader.pictures_without_boxes},
               {"max_boxes", reader.max_boxes},
               {"crowded_pictures", reader.crowded_pictures},
               {"boxes_beyond_max", reader.boxes_beyond_max},
               {"unusable_records", reader.unusable_records},
               {"invalid_boxes", reader.invalid_boxes},
               {"most_boxes", to_json(reader.most_boxes)}};
  json["classes"] = Json::array();
  for (size_t i = 0; i < reader.classes.size(); ++i)
    json["classes"].push_back({{"id", i + 1},
                               {"name", reader.classes[i].name},
                               {"boxes", reader.classes[i].boxes},
                               {"pictures", reader.classes[i].pictures}});
  json["unknown_classes"] = Json::object();
  for (const auto& [name, boxes] : reader.unknown_classes) json["unknown_classes"][name] = boxes;
  json["picture_sizes"] = Json::array();
  for (const auto& [size, pictures] : reader.size_count)
    json["picture_sizes"].push_back({{"height", size.first}, {"width", size.second}, {"pictures", pictures}});
  json["box_sizes"] = to_json(reader.box_sizes, reader.matched_threshold.has_value());
  json["box_shapes"] = to_json(reader.box_shapes, reader.matched_threshold.has_value());
  if (reader.matched_threshold) json["matched_threshold"] = *reader.matched_threshold;
  json["problems"] = Json::array();
  for (const data::RecordProblem& problem : reader.problems) json["problems"].push_back(to_json(problem));
  json["stops"] = reader.stops;
  json["warnings"] = reader.warnings;
  json["worst"] = Json::array();
  for (const ReaderCheck::Picture& picture : reader.worst) json["worst"].push_back(to_json(picture));
  return json;
}

}  // namespace

std::string dataset_text(const DatasetCheck& check) {
  std::string text;
  for (const ReaderCheck& reader : check.readers) {
    text += fmt::format("# {}\n{}", reader.reader, counts_text(reader));
    if (check.finds_boxes)
      text += boxes_text(reader, reader.box_sizes, "their longer side in pixels of the network's input", "pixels") +
              boxes_text(reader, reader.box_shapes, "their aspect ratio in it", "width / height");
    if (reader.records > 0) text += classes_text(reader) + problems_text(reader);
    for (const std::string& warning : reader.warnings) text += "  warning: " + printable(warning, '\n') + "\n";
    for (const std::string& stop : reader.stops)
      text += fmt::format("  {} would end: {}\n", reader.reader.starts_with("eval") ? "evaluation" : "training",
                          printable(stop, '\n'));
    text += "\n";
  }
  if (check.anchors) text += anchors_text(*check.anchors, *check.readers.front().matched_threshold);
  return text + (check.would_stop() ? "not ready to train\n" : "ready to train\n");
}

std::string dataset_json(const DatasetCheck& check) {
  Json json = {{"would_stop", check.would_stop()}, {"readers", Json::array()}};
  for (const ReaderCheck& reader : check.readers) json["readers"].push_back(to_json(reader));
  if (check.anchors) json["anchors"] = to_json(*check.anchors);
  return json_text(json, /*indent=*/2) + "\n";
}

}  // namespace osprey::train
