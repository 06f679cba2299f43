#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace osprey::eval {

/// An id of COCO's files: a whole number, or text.
struct CocoId {
  bool is_number = true;
  int64_t number = 0;
  std::string text = {};

  std::string str() const { return is_number ? std::to_string(number) : "\"" + text + "\""; }
  auto operator<=>(const CocoId&) const = default;
};

/// One object of a list in a COCO file, with the fields that an evaluation of boxes needs; the rest is skipped.
struct CocoItem {
  std::optional<CocoId> id, image_id, category_id;
  std::optional<std::string> name;
  std::optional<double> area, score, is_crowd;
  std::vector<double> bbox;
  bool has_bbox = false;
};

/// Reads a COCO file as a stream, item by item: `list` is "images", "annotations" or "categories", or "" for a results
/// file, which is one list.
///
/// returns  the names of the lists found
/// throws   DataError with file, line and what is wrong; what `item` throws as std::runtime_error is given the file and
///          place
std::vector<std::string> read_coco_json(
    const std::string& file,
    const std::function<void(const std::string& list, int64_t index, const CocoItem& item)>& item);

}  // namespace osprey::eval
