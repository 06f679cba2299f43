#include "osprey/config/pipeline.h"

#include <fmt/format.h>

#include <filesystem>

#include "osprey/config/override.h"
#include "osprey/config/parse.h"

namespace osprey::config {
namespace {

void prefix(std::string& path, const std::filesystem::path& folder) {
  static const std::string placeholder = "PATH_TO_BE_CONFIGURED/";
  if (path.starts_with(placeholder)) path.erase(0, placeholder.size());
  if (!path.empty() && !std::filesystem::path(path).is_absolute()) path = (folder / path).string();
}

/// files  what a reader without paths reads
void prefix_paths(proto::InputReader& reader, const std::filesystem::path& folder, const std::string& files) {
  if (reader.has_label_map_path()) prefix(*reader.mutable_label_map_path(), folder);
  if (reader.has_external_input_reader() || reader.has_custom()) return;  // they have no files that we know of
  auto& paths = *reader.mutable_tf_record_input_reader()->mutable_input_path();
  if (paths.empty()) *paths.Add() = files;
  for (std::string& path : paths) prefix(path, folder);
}

}  // namespace

Pipeline parse_pipeline(std::string_view text, const std::string& name, const Overrides& overrides) {
  auto parsed = parse<proto::TrainEvalPipelineConfig>(text, name);
  Pipeline pipeline{parsed.message, parsed.sources};
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
      prefix_paths(*pipeline.message->mutable_train_input_reader(), overrides.data_dir, "train-*");
    for (auto& reader : *pipeline.message->mutable_eval_input_reader())
      prefix_paths(reader, overrides.data_dir, "validation-*");
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
