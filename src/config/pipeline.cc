#include "osprey/config/pipeline.h"

#include <fmt/format.h>

#include "osprey/config/override.h"
#include "osprey/config/parse.h"

namespace osprey::config {

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
  return pipeline;
}

Pipeline parse_pipeline(std::string_view text, const std::string& name, const std::vector<std::string>& assignments) {
  return parse_pipeline(text, name, Overrides{"", assignments});
}

Pipeline load_pipeline(const std::string& file, const Overrides& overrides) {
  Pipeline pipeline = parse_pipeline(read_config_file(file, "pipeline config"), file, overrides);
  if (pipeline.message->ByteSizeLong() == 0) throw ConfigError(fmt::format("{}: the pipeline config is empty", file));
  return pipeline;
}

Pipeline load_pipeline(const std::string& file, const std::vector<std::string>& assignments) {
  return load_pipeline(file, Overrides{"", assignments});
}

}  // namespace osprey::config
