#pragma once
#include <filesystem>
#include <string>

namespace osprey::tools {

/// The folder that serves a model: the one that was named, or one made of a training's checkpoint for as long as this
/// lives.
class ServedModel {
 public:
  /// path    folder written by export_model, a model directory (its newest checkpoint), or a checkpoint in one
  ///         (its model.pt stands for the folder that export_model wrote)
  /// throws  DataError: nothing is there; ConfigError: what is there is no model
  explicit ServedModel(const std::filesystem::path& path);
  ~ServedModel();
  ServedModel(const ServedModel&) = delete;
  ServedModel& operator=(const ServedModel&) = delete;

  std::string folder() const { return folder_.string(); }

 private:
  std::filesystem::path folder_, own_;
};

}  // namespace osprey::tools
