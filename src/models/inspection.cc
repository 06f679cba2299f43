#include "osprey/models/inspection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "osprey/base/json_text.h"
#include "osprey/config/deprecated.h"
#include "osprey/config/effective.h"
#include "osprey/config/resolve.h"
#include "osprey/config/static_shapes.h"
#include "osprey/config/support.h"

namespace osprey::models {
namespace {

using config::Origin;
using config::Pipeline;
using config::Remark;

/// Deprecated fields and choices that are read and ignored.
std::vector<Remark> remarks_of(const Pipeline& pipeline) {
  std::vector<Remark> remarks = config::deprecated_fields(pipeline);
  for (const Remark& remark : config::unsupported_choices(pipeline).listed) remarks.push_back(remark);
  return remarks;
}

std::string arithmetic_name(const config::ArithmeticChoice& choice) {
  return proto::TrainEvalPipelineConfig::Arithmetic_Name(choice.value);
}

const char* name_of(Origin::Kind kind) {
  switch (kind) {
    case Origin::Kind::kFile:
      return "file";
    case Origin::Kind::kOverride:
      return "override";
    case Origin::Kind::kDefault:
      break;
  }
  return "default";
}

}  // namespace

std::string config_report(const Pipeline& pipeline) {
  std::string report = "# Effective config\n" + config::annotated_text(pipeline);
  const auto choice = config::arithmetic(*pipeline.message);
  report +=
      fmt::format("\n# Arithmetic of optimizers and batch norm\n{}: {}\n", arithmetic_name(choice), choice.reason);
  const auto remarks = remarks_of(pipeline);
  if (!remarks.empty()) report += "\n# Deprecated or ignored\n";
  for (const Remark& remark : remarks) report += remark.line() + "\n";
  report += "\n# Static shapes\n";
  const auto parts = config::dynamic_parts(pipeline);
  if (parts.empty()) report += "static from end to end\n";
  for (const auto& part : parts) report += fmt::format("{}\n  instead: {}\n", part.remark.line(), part.substitute);
  return report;
}

std::string model_report(const Summary& summary) {
  std::string maps;
  for (const auto& map : summary.feature_maps)
    maps += fmt::format("{}{}x{}x{}", maps.empty() ? "" : ", ", map[0], map[1], map[2]);
  return fmt::format(
      "\n# Model\n"
      "trainable parameters:    {}\n"
      "all variables:           {}\n"
      "multiplications (convolutions, one image): {:.3f} G\n"
      "input (height x width):  {}x{}{}\n"
      "feature maps (h x w x d): {}\n"
      "rounded to 8 bits:       {} tensors\n"
      "anchors:                 {}\n"
      "box encodings:           [{}]\n"
      "class predictions:       [{}]\n",
      summary.trainable_parameters, summary.total_parameters, static_cast<double>(summary.multiply_adds) * 1e-9,
      summary.input_size[0], summary.input_size[1], summary.any_input_size ? " for a picture of 480x640" : "", maps,
      summary.quantizers, summary.num_anchors, fmt::join(summary.box_encodings_shape, ", "),
      fmt::join(summary.class_predictions_shape, ", "));
}

std::string inspection_json(const Pipeline& pipeline, const Summary& summary) {
  const auto choice = config::arithmetic(*pipeline.message);
  nlohmann::ordered_json object = {{"trainable_parameters", summary.trainable_parameters},
                                   {"total_parameters", summary.total_parameters},
                                   {"multiply_adds", summary.multiply_adds},
                                   {"input_size", summary.input_size},
                                   {"any_input_size", summary.any_input_size},
                                   {"feature_maps", summary.feature_maps},
                                   {"quantizers", summary.quantizers},
                                   {"num_anchors", summary.num_anchors},
                                   {"box_encodings_shape", summary.box_encodings_shape},
                                   {"class_predictions_shape", summary.class_predictions_shape},
                                   {"arithmetic", arithmetic_name(choice)}};
  object["values"] = nlohmann::ordered_json::array();
  for (const auto& value : config::set_values(pipeline))
    object["values"].push_back({{"path", value.path},
                                {"value", value.text},
                                {"origin", name_of(value.origin.kind)},
                                {"source", value.origin.source},
                                {"line", value.origin.line}});
  object["remarks"] = nlohmann::ordered_json::array();
  for (const Remark& remark : remarks_of(pipeline))
    object["remarks"].push_back({{"field", remark.path}, {"message", remark.message}});
  object["dynamic_parts"] = nlohmann::ordered_json::array();
  for (const auto& part : config::dynamic_parts(pipeline))
    object["dynamic_parts"].push_back(
        {{"field", part.remark.path}, {"why", part.remark.message}, {"substitute", part.substitute}});
  return json_text(object, /*indent=*/2) + "\n";
}

}  // namespace osprey::models
