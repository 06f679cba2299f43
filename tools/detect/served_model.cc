#include "detect/served_model.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "osprey/base/error.h"
#include "osprey/config/validate.h"
#include "osprey/export/exporter.h"

namespace osprey::tools {
namespace fs = std::filesystem;
namespace {

/// Refuses what cannot be served.
/// run  the folder of the training, if it is one
void check(const fs::path& path, const fs::path& run) {
  const bool is_run = fs::exists(run / "pipeline.config");
  if (!fs::exists(path) && !is_run)  // a checkpoint may be named without its ending
    throw DataError(fmt::format("--model {}: no such file or folder", path.string()));
  if (!is_run)
    throw DataError(fmt::format(
        "--model {}: neither what export_model wrote (model.pt) nor a training's folder (pipeline.config) is there",
        path.string()));
  if (path.extension() == ".onnx")
    throw ConfigError(fmt::format("--model: {} is for ONNX runtimes; detect runs the model.pt beside it: give {}",
                                  path.string(), run.empty() ? "." : run.string()));
  if (fs::is_regular_file(path) &&
      (path.filename() == "checkpoint" || path.extension() == ".config" || path.extension() == ".json"))
    throw ConfigError(fmt::format("--model: {} is no model; give its folder, {}, or a checkpoint (ckpt-<step>.osprey)",
                                  path.string(), run.empty() ? "." : run.string()));
}

/// Has the classes named by the copy of the label map that the training left, if it did: paths in its config are
/// relative to where it ran, and may lead to another's here.
void name_classes_by(const fs::path& copy, proto::TrainEvalPipelineConfig& config) {
  if (!fs::exists(copy)) return;
  proto::InputReader& reader =
      config.eval_input_reader_size() > 0 ? *config.mutable_eval_input_reader(0) : *config.mutable_train_input_reader();
  reader.clear_label_map();
  reader.set_label_map_path(copy.string());
}

fs::path temporary_folder() {
  const fs::path temporary = fs::temp_directory_path();
  std::string name = (temporary / "osprey-detect-XXXXXX").string();  // mkdtemp replaces the six letters
  if (::mkdtemp(name.data()) == nullptr)
    throw DataError(fmt::format("{}: no folder for the exported model can be made there: {}", temporary.string(),
                                std::strerror(errno)));
  return name;
}

}  // namespace

ServedModel::ServedModel(const fs::path& path) : folder_(path) {
  const fs::path run = fs::is_directory(path) ? path : path.parent_path();
  if (path.filename() == "model.pt") folder_ = run;
  if (fs::exists(folder_ / "model.pt")) return;
  check(path, run);
  own_ = temporary_folder();
  folder_ = own_ / "model";
  try {
    const auto pipeline = config::load_pipeline((run / "pipeline.config").string());
    config::check(pipeline);
    name_classes_by(run / "label_map.pbtxt", *pipeline.message);
    export_model(pipeline, path.string(), folder_.string(), {.onnx = false, .parity_images = 1});
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(own_, ignored);
    throw;
  }
}

ServedModel::~ServedModel() {
  std::error_code ignored;
  if (!own_.empty()) fs::remove_all(own_, ignored);
}

}  // namespace osprey::tools
