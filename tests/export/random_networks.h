#pragma once
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "../src/export/calibration.h"
#include "osprey/config/pipeline.h"
#include "osprey/config/support.h"
#include "osprey/models/builder.h"
#include "support/golden.h"

namespace osprey::testing {

/// The config with a small canvas, wider than high, that every level of a pyramid halves.
inline config::Pipeline small(const std::filesystem::path& file) {
  return config::load_pipeline(
      file.string(), std::vector<std::string>{
                         "graph_rewriter=", "model.ssd.image_resizer={fixed_shape_resizer {height: 256 width: 384}}"});
}

/// Weights with which maps have numbers of all sizes from their first level to their last.
inline void randomize(models::DetectionModel& model) {
  at::manual_seed(1);
  for (const auto& [name, variable] : models::variables(model)) {
    at::Tensor values(variable);
    if (values.dim() == 4)
      values.normal_(0, std::sqrt(1.5 / static_cast<double>(values.numel() / values.size(0))));
    else if (name.ends_with("moving_mean"))
      values.normal_(0, 0.1);
    else if (name.ends_with("moving_variance"))
      values.uniform_(0.5, 1.5);
  }
}

/// The quickstart's network, after a step of training that finds the ranges of what is rounded.
inline std::shared_ptr<models::DetectionModel> quickstart_model(const std::vector<std::string>& changes) {
  auto model =
      models::build_model(config::load_pipeline(OSPREY_SOURCE_DIR "/configs/quickstart.config", changes).root());
  const at::NoGradGuard no_gradients;
  randomize(*model);
  const auto [height, width] = model->input_size();
  Batch batch;
  batch.images = at::randint(0, 256, {2, 3, height, width}, at::kByte);
  batch.true_shapes = at::tensor({height, width}, at::kLong).repeat({2, 1});
  model->train();
  model->predict(model->preprocess(batch));
  model->commit_statistics();
  model->eval();
  return model;
}

/// Root of the mean squared difference.
inline double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).square().mean().sqrt().item<double>();
}

/// By what a model is rounded after pictures, each a batch of one on the canvas.
inline Calibration calibrated(models::DetectionModel& model, const std::vector<Batch>& pictures) {
  Calibrator calibrator(model, {pictures.front().images.size(2), pictures.front().images.size(3)});
  for (const Batch& picture : pictures) calibrator.show(picture);
  return calibrator.result();
}

/// The public configs of an SSD that is supported, each `parts`-th of them in the order of their names from `part` on.
inline std::vector<std::filesystem::path> public_configs(int part, int parts) {
  std::vector<std::filesystem::path> files, result;
  for (const auto& entry : std::filesystem::directory_iterator(*test_data() / "data/pipeline_configs"))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (size_t i = static_cast<size_t>(part); i < files.size(); i += static_cast<size_t>(parts)) {
    if (!config::load_pipeline(files[i].string()).message->model().has_ssd()) continue;
    if (config::unsupported_choices(small(files[i])).refused.empty()) result.push_back(files[i]);
  }
  return result;
}

}  // namespace osprey::testing
