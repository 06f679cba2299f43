#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "osprey/config/node.h"
#include "osprey/config/parse.h"
#include "osprey/config/source_map.h"
#include "osprey/protos/pipeline.pb.h"

namespace osprey::config {

/// A pipeline config after its overrides, and where each value came from. A copy is a config of its own: what a run
/// derives in it (numbers of classes, rates scaled to the batch) is not seen by others. Nodes see the config that gave
/// them, also after it was moved.
struct Pipeline {
  Pipeline() = default;
  explicit Pipeline(Parsed<proto::TrainEvalPipelineConfig> parsed);
  Pipeline(const Pipeline& other);
  Pipeline(Pipeline&&) = default;
  Pipeline& operator=(Pipeline other) noexcept;

  std::shared_ptr<proto::TrainEvalPipelineConfig> message;
  std::shared_ptr<FieldOrigins> sources;

  ConfigNode<proto::TrainEvalPipelineConfig> root() const { return {*message, "", sources}; }
};

/// What a command line changes in a config.
struct Overrides {
  std::string merged_text;               ///< of `--config_override`: text format, merged first
  std::vector<std::string> assignments;  ///< of `--set`, in their order; see apply_override
  /// Put before every relative path of the input readers, after all else, in the place of PATH_TO_BE_CONFIGURED where
  /// one begins so. A reader without paths then reads `train-*` there, or `validation-*` for evaluation.
  std::string data_dir;
};

/// Reads a pipeline config and applies the assignments of `--set`.
/// throws ConfigError for a file that cannot be read or sets nothing, and for every error in it
Pipeline load_pipeline(const std::string& file, const std::vector<std::string>& assignments = {});
Pipeline load_pipeline(const std::string& file, const Overrides& overrides);

/// The same from text; `name` stands for the file in errors. An empty text is an empty config.
Pipeline parse_pipeline(std::string_view text, const std::string& name = "text",
                        const std::vector<std::string>& assignments = {});
Pipeline parse_pipeline(std::string_view text, const std::string& name, const Overrides& overrides);

}  // namespace osprey::config
