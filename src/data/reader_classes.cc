#include "osprey/data/reader_classes.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "annotation_index.h"
#include "osprey/base/error.h"
#include "osprey/config/label_map.h"
#include "osprey/config/resolve.h"

namespace osprey::data {
namespace {

bool lacks_classes(const proto::InputReader& reader) {
  return reader.has_annotation_input_reader() && reader.label_map_path().empty() && !reader.has_label_map();
}

bool is_there(const std::string& input) {
  std::error_code ignored;
  return std::filesystem::exists(input, ignored);
}

/// What cannot be done without, unless a placeholder stands for it.
void require_there(const proto::InputReader& reader, const std::string& path) {
  const std::string& input = reader.annotation_input_reader().input();
  if (lacks_classes(reader) && !input.empty() && input.find("PATH_TO_BE_CONFIGURED") == std::string::npos &&
      !is_there(input))
    throw DataError(fmt::format("{}.annotation_input_reader.input: there is no file or folder '{}'", path, input));
}

std::optional<config::LabelMap> classes_of(const config::ConfigNode<proto::InputReader>& reader) {
  const proto::AnnotationInputReader& annotations = reader->annotation_input_reader();
  if (!annotations.has_format() || !is_there(annotations.input())) return std::nullopt;
  Problems problems;  // they are told when it is read
  const auto source = open_annotations(reader.child("annotation_input_reader", annotations), problems);
  return new_label_map(*source, annotations.input(), problems);
}

}  // namespace

void derive_classes(config::Pipeline& pipeline) {
  auto& config = *pipeline.message;
  const auto give = [&](proto::InputReader& reader, const std::string& path, const std::string& whose,
                        const std::optional<config::LabelMap>& map) {
    if (!map) return;
    config::set_label_map(*map, reader);
    pipeline.sources->set(path + ".label_map", {config::Origin::Kind::kOverride, "classes of " + whose, 0, 0, ""});
  };
  const auto root = pipeline.root();
  if (lacks_classes(config.train_input_reader())) {
    proto::InputReader& reader = *config.mutable_train_input_reader();
    give(reader, "train_input_reader", reader.annotation_input_reader().input(),
         classes_of(root.child("train_input_reader", reader)));
  }
  for (int i = 0; i < config.eval_input_reader_size(); ++i) {
    proto::InputReader& reader = *config.mutable_eval_input_reader(i);
    if (!lacks_classes(reader)) continue;
    const auto node = root.child("eval_input_reader", i, reader);
    const proto::InputReader& training = config.train_input_reader();
    if (const auto map = config::label_map_of(training)) {
      give(reader, node.path(), "train_input_reader", map);
    } else if (!config.has_train_input_reader()) {
      give(reader, node.path(), reader.annotation_input_reader().input(), classes_of(node));
    } else if (is_there(reader.annotation_input_reader().input())) {
      require_there(training, "train_input_reader");
      node.fail("label_map_path",
                "must be set: train_input_reader has no label map, or annotations that are here, to say what the class "
                "ids of the model mean");
    }
  }
  config::derive_num_classes(config);
  if (config::num_classes(config) > 0) return;
  require_there(config.train_input_reader(), "train_input_reader");
}

}  // namespace osprey::data
