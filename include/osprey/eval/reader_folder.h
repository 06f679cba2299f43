#pragma once
#include <filesystem>
#include <string>

#include "osprey/config/node.h"
#include "osprey/protos/pipeline.pb.h"

namespace osprey::eval {

/// Where the results of eval_input_reader[index] go, so that those of several readers stand beside each other:
/// `eval_dir` itself for the first reader, a folder in it for each other one, called as the reader, or reader_<index>
/// where it has no name.
///
/// throws  ConfigError for a name that can be no folder's, or that gives the folder of an earlier reader
/// source  TF Object Detection API, model_lib_v2.eval_continuously: eval/<name>
std::filesystem::path reader_folder(const config::ConfigNode<proto::TrainEvalPipelineConfig>& root, int index,
                                    const std::filesystem::path& eval_dir);

/// "eval_input_reader[1]", with a name "eval_input_reader[1] (night)"; for messages.
std::string reader_text(const proto::TrainEvalPipelineConfig& config, int index);

}  // namespace osprey::eval
