#include "osprey/config/label_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "config/scalar.h"
#include "osprey/base/atomic_file.h"
#include "osprey/base/error.h"
#include "osprey/config/parse.h"
#include "osprey/protos/input_reader.pb.h"
#include "osprey/protos/string_int_label_map.pb.h"

namespace osprey::config {

const LabelMap::Item* LabelMap::find(int id) const {
  auto found =
      std::lower_bound(items.begin(), items.end(), id, [](const Item& item, int wanted) { return item.id < wanted; });
  return found != items.end() && found->id == id ? &*found : nullptr;
}

const LabelMap::Item* LabelMap::find(std::string_view name) const {
  if (name.empty()) return nullptr;
  for (const Item& item : items)
    if (item.name == name) return &item;
  for (const Item& item : items)
    if (item.display_name == name) return &item;
  return nullptr;
}

namespace {

/// name  of the file or field
LabelMap checked_map(const ConfigNode<proto::StringIntLabelMap>& root, const std::string& name) {
  LabelMap map;
  std::string errors;
  std::map<int, int> first_of_id;  // value -> index of the first item that has it
  std::map<std::string, int> first_of_name;
  auto origin_of = [&](const std::string& path) { return root.sources() ? root.sources()->origin(path) : Origin(); };
  auto item_at = [&](int item) {
    const int line = origin_of(fmt::format("item[{}]", item)).line;
    return line > 0 ? fmt::format("the item at line {}", line) : fmt::format("item[{}]", item);
  };
  auto report = [&](int item, const char* field, const std::string& message) {
    const std::string path = root.path_of(fmt::format("item[{}].{}", item, field));
    errors += (errors.empty() ? "" : "\n") + describe(origin_of(path), path, message);
  };
  for (int i = 0; i < root->item_size(); ++i) {
    const auto& item = root->item(i);
    const std::string& called = item.name().empty() ? item.display_name() : item.name();
    if (item.has_id() && item.id() == 0 && called == "background") continue;  // as in public maps; it is no class
    if (!item.has_id())
      report(i, "id", "is not set; ids are numbered from 1");
    else if (item.id() < 1)
      report(i, "id", fmt::format("must be >= 1, got {}; 0 stands for the background and is not listed", item.id()));
    else if (auto [first, is_new] = first_of_id.emplace(item.id(), i); !is_new)
      report(i, "id", fmt::format("{} is taken by {}", item.id(), item_at(first->second)));
    if (called.empty())
      report(i, "name", "is not set");
    else if (auto [first, is_new] = first_of_name.emplace(called, i); !is_new)
      report(i, item.name().empty() ? "display_name" : "name",
             fmt::format("\"{}\" is taken by {}", called, item_at(first->second)));
    map.items.push_back({item.id(), called, item.display_name()});
  }
  if (!errors.empty()) throw ConfigError(errors);
  if (map.items.empty()) throw ConfigError(fmt::format("{}: the label map is empty", name));
  std::sort(map.items.begin(), map.items.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return map;
}

}  // namespace

LabelMap parse_label_map(std::string_view text, const std::string& name) {
  const auto parsed = parse<proto::StringIntLabelMap>(text, name);
  return checked_map(parsed.node(), name);
}

std::optional<LabelMap> label_map_of(const proto::InputReader& reader) {
  if (reader.has_label_map())
    return checked_map(ConfigNode<proto::StringIntLabelMap>(reader.label_map(), "label_map"), "label_map");
  if (reader.label_map_path().empty()) return std::nullopt;
  return load_label_map(reader.label_map_path());
}

void set_label_map(const LabelMap& map, proto::InputReader& reader) {
  reader.clear_label_map();
  for (const LabelMap::Item& item : map.items) {
    proto::StringIntLabelMapItem& written = *reader.mutable_label_map()->add_item();
    written.set_id(item.id);
    written.set_name(item.name);
    if (!item.display_name.empty()) written.set_display_name(item.display_name);
  }
}

LabelMap load_label_map(const std::string& file) { return parse_label_map(read_config_file(file, "label map"), file); }

std::string label_map_text(const LabelMap& map) {
  std::string text;
  for (const LabelMap::Item& item : map.items) {
    text += fmt::format("item {{\n  id: {}\n  name: {}\n", item.id, string_literal(item.name));
    if (!item.display_name.empty()) text += fmt::format("  display_name: {}\n", string_literal(item.display_name));
    text += "}\n";
  }
  return text;
}

void write_label_map(const LabelMap& map, const std::string& file) {
  write_whole(file, label_map_text(map), AtomicFile::Temporary::kPerProcess);  // of several data sets at a time
}

}  // namespace osprey::config
