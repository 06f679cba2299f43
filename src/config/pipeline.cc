#include "osprey/config/pipeline.h"

#include <fmt/format.h>

#include <filesystem>

#include "osprey/config/override.h"

namespace osprey::config {
namespace {

namespace fs = std::filesystem;

/// Whether a relative path begins in the folder already, as in a config that a run has saved.
bool begins_in(const fs::path& folder, const fs::path& path) {
  const fs::path below = path.lexically_normal().lexically_relative(folder.lexically_normal());
  std::error_code ignored;
  return !below.empty() && *below.begin() != ".." && !fs::exists((folder / path).parent_path(), ignored);
}

void prefix(std::string& path, const fs::path& folder) {
  static const std::string placeholder = "PATH_TO_BE_CONFIGURED/";
  const bool is_open = path.starts_with(placeholder);
  if (is_open) path.erase(0, placeholder.size());
  if (path.empty() || fs::path(path).is_absolute()) return;
  if (is_open || !begins_in(folder, path)) path = (folder / path).string();
}

/// name   of the reader: "train_input_reader"
/// files  what a reader without paths reads
void prefix_paths(proto::InputReader& reader, const std::string& name, const std::string& folder,
                  const std::string& files, FieldOrigins& origins) {
  const Origin origin{Origin::Kind::kOverride, "--data_dir " + folder, 0, 0, ""};
  const auto put_before = [&](std::string& path, const std::string& field) {
    const std::string written = path;
    prefix(path, folder);
    if (path != written) origins.set(name + field, origin);
  };
  if (reader.has_label_map_path()) put_before(*reader.mutable_label_map_path(), ".label_map_path");
  if (reader.has_external_input_reader() || reader.has_custom()) return;  // they have no files that we know of
  if (reader.has_annotation_input_reader()) {
    proto::AnnotationInputReader& annotations = *reader.mutable_annotation_input_reader();
    const std::string field = ".annotation_input_reader.";
    if (annotations.has_input()) put_before(*annotations.mutable_input(), field + "input");
    if (annotations.has_image_dir()) put_before(*annotations.mutable_image_dir(), field + "image_dir");
    if (annotations.has_class_descriptions())
      put_before(*annotations.mutable_class_descriptions(), field + "class_descriptions");
    const bool may_be_word = annotations.format() == proto::AnnotationInputReader::YOLO ||
                             annotations.format() == proto::AnnotationInputReader::CVAT;
    const bool is_word = may_be_word && annotations.split().find_first_of("./") == std::string::npos;
    if (annotations.has_split() && !is_word) put_before(*annotations.mutable_split(), field + "split");
    return;
  }
  auto& paths = *reader.mutable_tf_record_input_reader()->mutable_input_path();
  if (paths.empty()) {
    *paths.Add() = files;
    origins.set(name + ".tf_record_input_reader.input_path[0]", origin);
  }
  for (int i = 0; i < paths.size(); ++i) put_before(paths[i], fmt::format(".tf_record_input_reader.input_path[{}]", i));
}

template <class T>
std::shared_ptr<T> copy_of(const std::shared_ptr<T>& value) {
  return value ? std::make_shared<T>(*value) : nullptr;
}

}  // namespace

Pipeline::Pipeline(Parsed<proto::TrainEvalPipelineConfig> parsed)
    : message(std::move(parsed.message)), sources(std::move(parsed.sources)) {}

Pipeline::Pipeline(const Pipeline& other) : message(copy_of(other.message)), sources(copy_of(other.sources)) {}

Pipeline& Pipeline::operator=(Pipeline other) noexcept {
  message = std::move(other.message);
  sources = std::move(other.sources);
  return *this;
}

Pipeline parse_pipeline(std::string_view text, const std::string& name, const Overrides& overrides) {
  Pipeline pipeline(parse<proto::TrainEvalPipelineConfig>(text, name));
  if (!overrides.merged_text.empty()) merge_override(*pipeline.message, *pipeline.sources, overrides.merged_text);
  std::string errors;
  for (const std::string& assignment : overrides.assignments) {
    try {
      apply_override(*pipeline.message, *pipeline.sources, assignment);
    } catch (const ConfigError& error) {  // the others are looked at as well
      errors += (errors.empty() ? "" : "\n") + std::string(error.what());
    }
  }
  if (!errors.empty()) throw ConfigError(errors);
  if (!overrides.data_dir.empty()) {
    if (pipeline.message->has_train_input_reader())
      prefix_paths(*pipeline.message->mutable_train_input_reader(), "train_input_reader", overrides.data_dir, "train-*",
                   *pipeline.sources);
    auto& readers = *pipeline.message->mutable_eval_input_reader();
    for (int i = 0; i < readers.size(); ++i)
      prefix_paths(readers[i], fmt::format("eval_input_reader[{}]", i), overrides.data_dir, "validation-*",
                   *pipeline.sources);
  }
  return pipeline;
}

Pipeline parse_pipeline(std::string_view text, const std::string& name, const std::vector<std::string>& assignments) {
  return parse_pipeline(text, name, Overrides{.assignments = assignments});
}

Pipeline load_pipeline(const std::string& file, const Overrides& overrides) {
  Pipeline pipeline = parse_pipeline(read_config_file(file, "pipeline config"), file, overrides);
  if (pipeline.message->ByteSizeLong() == 0) throw ConfigError(fmt::format("{}: the pipeline config is empty", file));
  return pipeline;
}

Pipeline load_pipeline(const std::string& file, const std::vector<std::string>& assignments) {
  return load_pipeline(file, Overrides{.assignments = assignments});
}

}  // namespace osprey::config
