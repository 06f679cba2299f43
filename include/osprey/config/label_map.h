#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace osprey::protos {
class InputReader;
}

namespace osprey::config {

/// The classes of a data set: ids as written in files, from 1 (a class index inside Osprey is id - 1).
struct LabelMap {
  struct Item {
    int id = 0;
    std::string name;          ///< as annotations and records spell it
    std::string display_name;  ///< as people read it; empty where the file has none
    /// What is shown for this class.
    const std::string& shown() const { return display_name.empty() ? name : display_name; }
  };
  std::vector<Item> items;  ///< ascending ids; gaps are allowed, as in the 90 ids of COCO

  /// The largest id, 0 for an empty map: the number of classes a model needs.
  int max_id() const { return items.empty() ? 0 : items.back().id; }
  const Item* find(int id) const;
  /// By name, or by display name where no name equals it.
  const Item* find(std::string_view name) const;
};

/// Reads a label map file, text format of StringIntLabelMap. An item without a name is called by its display name.
/// throws ConfigError, all findings at once with their lines: an id below 1 or missing, ids or names twice, an
///        item without any name, an empty map, a file that cannot be read
LabelMap load_label_map(const std::string& file);

/// The same from text; `name` stands for the file in errors.
LabelMap parse_label_map(std::string_view text, const std::string& name);

/// The label map of a reader: its `label_map`, else the file of its `label_map_path`; nothing where it has neither.
///
/// throws  ConfigError as load_label_map
std::optional<LabelMap> label_map_of(const protos::InputReader& reader);

/// Makes it the `label_map` of a reader.
void set_label_map(const LabelMap& map, protos::InputReader& reader);

/// The text of a label map file; parse_label_map gives the same map again.
std::string label_map_text(const LabelMap& map);

/// Writes that text to a file, whole or not at all.
///
/// throws  DataError where it cannot
void write_label_map(const LabelMap& map, const std::string& file);

}  // namespace osprey::config
