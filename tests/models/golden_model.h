#pragma once
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <filesystem>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "osprey/config/pipeline.h"
#include "osprey/models/builder.h"
#include "osprey/nn/keras_names.h"
#include "osprey/nn/name_map.h"
#include "osprey/nn/quantization.h"
#include "support/golden.h"

/// What the tests of whole models against the original's numbers share.
namespace osprey::testing {

/// Every golden file of models whose name begins with `prefix`; with an empty prefix the files of structures, which
/// have none.
inline std::vector<std::filesystem::path> model_files(const std::string& prefix) {
  std::vector<std::filesystem::path> files;
  for (const auto& folder : golden_files("models")) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (entry.path().extension() != ".json" || name == "forward_check.json") continue;
      const bool has_prefix = name.starts_with("forward_") || name.starts_with("train_") || name.starts_with("steps_");
      if (prefix.empty() ? !has_prefix : name.starts_with(prefix)) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// The pipeline of a golden file, found beside it; with its input size and number of classes where the file names them,
/// and not quantized, which is no part of the original's models.
inline config::Pipeline golden_pipeline(const std::filesystem::path& file, const nlohmann::json& golden) {
  std::string name = std::filesystem::path(golden.at("config").get<std::string>()).filename().string();
  if (name.ends_with(".config")) name.resize(name.size() - std::string_view(".config").size());
  const auto data = file.parent_path().parent_path().parent_path();  // <data>/golden/models/<file>
  config::Pipeline pipeline = config::load_pipeline((data / "data" / "pipeline_configs" / (name + ".config")).string(),
                                                    std::vector<std::string>{"graph_rewriter="});
  // The original was built for the largest picture of a resizer without a fixed size.
  auto& resizer = *pipeline.message->mutable_model()->mutable_ssd()->mutable_image_resizer();
  if (resizer.has_keep_aspect_ratio_resizer())
    resizer.mutable_keep_aspect_ratio_resizer()->set_pad_to_max_dimension(true);
  return pipeline;
}

inline void set_input(config::Pipeline& pipeline, const nlohmann::json& golden) {
  auto& ssd = *pipeline.message->mutable_model()->mutable_ssd();
  auto& size = *ssd.mutable_image_resizer()->mutable_fixed_shape_resizer();
  size.set_height(golden.at("input_hw")[0]);
  size.set_width(golden.at("input_hw")[1]);
  ssd.set_num_classes(golden.at("num_classes"));
}

/// Calls `check` for each file with its contents and its pipeline.
/// sized  the file names the input size and the number of classes that it was made with
template <class Check>
void for_each_model(const std::vector<std::filesystem::path>& files, bool sized, Check check) {
  for (const auto& file : files) {
    SCOPED_TRACE(file.filename().string());
    const nlohmann::json golden = read_json(file);
    config::Pipeline pipeline = golden_pipeline(file, golden);
    if (sized) set_input(pipeline, golden);
    if constexpr (std::is_invocable_v<Check, const nlohmann::json&, const config::Pipeline&,
                                      const std::filesystem::path&>) {
      check(golden, pipeline, file);
    } else {
      check(golden, pipeline);
    }
  }
  std::cout << files.size() << " golden models checked" << std::endl;
  EXPECT_FALSE(files.empty());
}

/// The values that the golden files give to a variable, in TensorFlow's layout (their `doc.init` says the formula).
inline at::Tensor formula_values(const std::string& tf_name, const std::vector<int64_t>& tf_shape) {
  const auto crc = static_cast<uint32_t>(
      crc32(crc32(0, nullptr, 0), reinterpret_cast<const Bytef*>(tf_name.data()), static_cast<uInt>(tf_name.size())));
  const std::string leaf = tf_name.substr(tf_name.find_last_of('/') + 1);
  double scale = 0.2, offset = 0;
  if (leaf == "moving_variance") {
    scale = 0.5, offset = 1;
  } else if (leaf == "gamma") {
    offset = 1;
  } else if (tf_shape.size() == 4) {
    const bool depthwise = leaf.find("depthwise") != std::string::npos;
    scale = std::sqrt(24.0 / static_cast<double>(tf_shape[0] * tf_shape[1] * (depthwise ? 1 : tf_shape[2])));
  }
  at::Tensor values = at::empty(tf_shape, at::kFloat);
  for (int64_t i = 0; i < values.numel(); ++i) {
    uint32_t z = (static_cast<uint32_t>(i) + crc) * 2654435761u;
    z = (z ^ (z >> 16)) * 2246822519u;
    z ^= z >> 13;
    values.data_ptr<float>()[i] = static_cast<float>(offset + scale * (z / 4294967296.0 - 0.5));
  }
  return values;
}

/// What the original of a golden file calls one of our variables.
inline std::string original_name(const nlohmann::json& golden, const std::string& our_name) {
  return golden.at("runtime") == "TF2" ? nn::keras_name(our_name).value() : nn::tf_name(our_name);
}

/// A model's variables but for counters, which the original makes for training alone.
inline std::vector<std::pair<std::string, at::Tensor>> compared_variables(const torch::nn::Module& model) {
  std::vector<std::pair<std::string, at::Tensor>> result;
  for (const auto& variable : models::variables(model))
    if (variable.second.is_floating_point()) result.push_back(variable);
  return result;
}

/// Our names of a model's variables by those of the original.
inline std::map<std::string, std::string> names_by_original(const torch::nn::Module& model,
                                                            const nlohmann::json& golden) {
  std::map<std::string, std::string> result;
  for (const auto& variable : compared_variables(model)) result[original_name(golden, variable.first)] = variable.first;
  return result;
}

/// Whether the original makes a variable that its detector never uses: the end of EfficientNet as a classifier.
inline bool is_unused(const std::string& original_name) {
  for (const char* const prefix : {"top_conv2d/", "top_bn/", "logits/"})
    if (original_name.starts_with(prefix)) return true;
  return original_name.starts_with("stack_6/") && !original_name.starts_with("stack_6/block_0/");
}

/// How many such variables a golden file has; those of a forward_ file stand in the file of its structure.
inline int64_t count_unused(const std::filesystem::path& file) {
  std::string name = file.filename().string();
  if (name.starts_with("forward_")) name = name.substr(std::string("forward_").size());
  int64_t count = 0;
  const std::filesystem::path structure = file.parent_path() / name;
  const nlohmann::json golden = read_json(structure);
  for (const auto& variable : golden.at("variables")) count += is_unused(variable.at(0));
  return count;
}

inline void set_formula_values(torch::nn::Module& model, const nlohmann::json& golden) {
  at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : models::variables(model)) {
    if (name.find(".concat.") != std::string::npos) continue;  // ranges of roundings stay as training finds them
    if (const double end = name.find("weights_quant") == std::string::npos ? 6 : 1;
        !nn::tf_quantizer_names(name).empty()) {
      tensor.fill_(name.ends_with("min") ? -end : end);
      continue;
    }
    if (!tensor.is_floating_point()) continue;
    const at::Tensor values = formula_values(original_name(golden, name), nn::tf_shape(name, tensor.sizes()));
    tensor.copy_(nn::from_tf_layout(name, values));
  }
}

/// The picture of the golden files: 127.5 + 127.5 sin(0.07 y + 0.11 x + 1.3 c + 0.0013 y x + 0.9 b); [B, 3, H, W].
inline at::Tensor formula_images(int64_t batch, int64_t height, int64_t width) {
  const auto axis = [](int64_t size, at::IntArrayRef view) { return at::arange(size, at::kDouble).view(view); };
  const at::Tensor b = axis(batch, {-1, 1, 1, 1}), c = axis(3, {1, -1, 1, 1}), y = axis(height, {1, 1, -1, 1}),
                   x = axis(width, {1, 1, 1, -1});
  const at::Tensor angle = y * 0.07 + x * 0.11 + c * 1.3 + y * x * 0.0013 + b * 0.9;
  return (angle.sin() * 127.5 + 127.5).to(at::kFloat).contiguous(at::MemoryFormat::ChannelsLast);
}

inline Batch formula_batch(int64_t batch, int64_t height, int64_t width) {
  Batch result;
  result.images = formula_images(batch, height, width);
  result.true_shapes = at::tensor({height, width}, at::kLong).repeat({batch, 1});
  return result;
}

/// Compares a tensor with its record: shape, first and last values, sum, sum of squares, extremes.
/// absolute  of one value; the sums may be off by a tenth of it per element, as errors rarely all point the same way
/// last      of the last values, where they need another one
inline void expect_record(const at::Tensor& actual, const nlohmann::json& record, double absolute,
                          const std::string& what, std::optional<double> last_absolute = std::nullopt) {
  SCOPED_TRACE(what);
  const at::Tensor values = actual.detach().to(at::kDouble).contiguous();
  ASSERT_EQ(values.sizes().vec(), record.at("shape").get<std::vector<int64_t>>());
  const at::Tensor flat = values.flatten();
  const at::Tensor first = tensor(record.at("first200"), at::kDouble), last = tensor(record.at("last50"), at::kDouble);
  expect_close(flat.slice(0, 0, first.numel()), first, 0, absolute, what + " first values");
  expect_close(flat.slice(0, flat.numel() - last.numel()), last, 0, last_absolute.value_or(absolute),
               what + " last values");
  const double count = static_cast<double>(flat.numel());
  const double square = record.at("sum_sq").get<double>();
  EXPECT_NEAR(flat.sum().item<double>(), record.at("sum").get<double>(),
              absolute + 0.1 * count * absolute + 50 * last_absolute.value_or(0));
  EXPECT_NEAR(flat.square().sum().item<double>(), square, absolute * (1 + 2 * std::sqrt(count * square)));
  EXPECT_NEAR(flat.min().item<double>(), record.at("min").get<double>(), absolute);
  EXPECT_NEAR(flat.max().item<double>(), record.at("max").get<double>(), absolute);
}

inline at::Tensor channels_last_view(const at::Tensor& nchw) { return nchw.permute({0, 2, 3, 1}); }

}  // namespace osprey::testing
