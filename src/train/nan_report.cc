#include "osprey/train/nan_report.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <ranges>

#include "osprey/base/atomic_file.h"
#include "osprey/base/error.h"
#include "osprey/base/json_text.h"
#include "osprey/checkpoint/directory.h"
#include "osprey/data/image_codec.h"
#include "osprey/train/summary_hook.h"

namespace osprey::train {
namespace {

bool has_non_finite(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_floating_point() && tensor.numel() > 0 &&
         !at::isfinite(tensor).all().item<bool>();
}

/// What the callbacks of the profiler's hook point write into; they are plain functions, so it lies in thread storage.
struct Watch {
  std::map<const void*, std::string> variables;  ///< by address
  const void* images = nullptr;                  ///< their address, if there are any
  std::string last_variable;
  NonFinite found;
  bool looking = false;  ///< the check itself runs operations
};
thread_local Watch* watch = nullptr;

/// While it lives, operations are the check's own.
struct Looking {
  Looking() { watch->looking = true; }
  ~Looking() { watch->looking = false; }
};

/// An operation that reads a variable belongs to that variable's layer; those after it, too, until the next. Of several
/// it belongs to the first one that is not finite itself, or else to the first.
std::unique_ptr<at::ObserverContext> before(const at::RecordFunction& function) {
  if (watch == nullptr || watch->looking || !watch->found.operation.empty()) return nullptr;
  const Looking looking;
  bool read = false;
  for (const c10::IValue& input : function.inputs()) {
    if (!input.isTensor() || !input.toTensor().defined() || !input.toTensor().has_storage()) continue;
    const auto variable = watch->variables.find(input.toTensor().storage().data());
    if (variable == watch->variables.end()) continue;
    const bool at_fault = has_non_finite(input.toTensor());
    if (!read || at_fault) watch->last_variable = variable->second;
    read = true;
    if (at_fault) break;
  }
  return nullptr;
}

// Memory that was handed out and not written yet may hold anything.
bool only_allocates(const std::string& operation) {
  for (const char* name : {"aten::empty", "aten::new_empty", "aten::resize"})
    if (operation.starts_with(name)) return true;
  return false;
}

/// Whether an operation may return what it was given, or a part of it, without writing it.
bool returns_views(const at::RecordFunction& function) {
  const auto schema = function.operator_schema();
  return schema && !schema->is_mutable() &&
         std::ranges::any_of(schema->returns(), [](const auto& result) { return result.alias_info() != nullptr; });
}

void after(const at::RecordFunction& function, at::ObserverContext*) {
  if (watch == nullptr || watch->looking || !watch->found.operation.empty()) return;
  const std::string operation = function.name();
  if (only_allocates(operation)) return;
  const Looking looking;
  // A view of what an operation made is either nothing new, or of memory that nothing has written yet.
  const bool views = returns_views(function);
  const auto was_given = [](const void* address) {
    return address == watch->images || watch->variables.contains(address);
  };
  const auto is_bad = [&](const at::Tensor& tensor) {
    const bool own = views && tensor.defined() && tensor.has_storage() && !was_given(tensor.storage().data());
    return !own && has_non_finite(tensor);
  };
  const auto shows = [&](const c10::IValue& output) {
    if (output.isTensorList()) return std::ranges::any_of(output.toTensorVector(), is_bad);
    return output.isTensor() && is_bad(output.toTensor());
  };
  if (std::ranges::any_of(function.outputs(), shows)) watch->found = {watch->last_variable, operation};
}

nlohmann::json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

nlohmann::json numbers(const at::Tensor& tensor) {
  nlohmann::json list = nlohmann::json::array();
  const at::Tensor flat = tensor.to(at::kCPU, at::kDouble).contiguous().flatten();
  for (int64_t i = 0; i < flat.numel(); ++i) list.push_back(number(flat.const_data_ptr<double>()[i]));
  return list;
}

nlohmann::json images_of(const Batch& there) {
  const Batch batch = to(there, at::kCPU);
  nlohmann::json images = nlohmann::json::array();
  for (int64_t i = 0; i < batch.size(); ++i) {
    nlohmann::json boxes = nlohmann::json::array();
    for (int64_t m = 0; m < batch.valid.size(1); ++m)
      if (batch.valid[i][m].item<bool>())
        boxes.push_back({{"box", numbers(batch.boxes[i][m])},
                         {"class", numbers(batch.classes[i][m])},
                         {"weight", numbers(batch.weights[i][m])[0]}});
    images.push_back({{"id", i < static_cast<int64_t>(batch.ids.size()) ? batch.ids[i] : ""},
                      {"finite_pixels", !has_non_finite(batch.images[i])},
                      {"boxes", boxes}});
  }
  return images;
}

/// The step of the first batch of those in a row that are not finite, of which the last one is that of the state.
int64_t first_of_row(const TrainState& state) {
  return state.skipped.last_step == state.step - 1 ? state.step - state.skipped.in_a_row : state.step;
}

/// Whether all that a checkpoint holds is finite; a damaged one is of no use either.
bool is_finite(const std::filesystem::path& file) {
  try {
    return std::ranges::none_of(checkpoint::read(file).tensors,
                                [](const auto& it) { return has_non_finite(it.second); });
  } catch (const CheckpointError&) {
    return false;
  }
}

/// The newest one that is not of a later step; null where there is none. What was written just before a step that is
/// not finite may hold weights that are not.
nlohmann::json last_finite_checkpoint(const std::filesystem::path& model_dir, int64_t step) {
  for (const checkpoint::Entry& entry : checkpoint::list(model_dir) | std::views::reverse)
    if (entry.step <= step && is_finite(entry.file)) return entry.file.string();
  return nullptr;
}

/// "a, b, c and 4 more"
std::string shortened(const nlohmann::ordered_json& names) {
  constexpr size_t kShown = 3;
  std::string result;
  for (size_t i = 0; i < std::min(kShown, names.size()); ++i)
    result += (i == 0 ? "" : ", ") + names[i].get<std::string>();
  return result + (names.size() > kShown ? fmt::format(" and {} more", names.size() - kShown) : "");
}

std::string summary(const nlohmann::ordered_json& report) {
  std::vector<std::string> parts;
  const auto& losses = report["non_finite_losses"];
  const auto& gradients = report["non_finite_gradients"];
  if (!losses.empty())
    parts.push_back("not finite: " + shortened(losses));
  else if (!gradients.empty())
    parts.push_back("all losses are finite, these gradients are not: " + shortened(gradients));
  if (report["first_non_finite_operation"].is_string())
    parts.push_back(fmt::format("first layer with an output that is not finite: {} ({})",
                                report["first_non_finite_layer"].get<std::string>(),
                                report["first_non_finite_operation"].get<std::string>()));
  else
    parts.emplace_back("the outputs of all layers are finite");
  parts.push_back(report["last_finite_checkpoint"].is_string()
                      ? "last finite checkpoint: " + report["last_finite_checkpoint"].get<std::string>()
                      : "no finite checkpoint was written before");
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace

NonFinite first_non_finite(models::DetectionModel& model, const Batch& batch, const StepOptions& options) {
  Watch local;
  for (const auto& [name, tensor] : models::variables(model))
    if (tensor.has_storage()) local.variables.emplace(tensor.storage().data(), name);
  if (batch.images.defined()) local.images = batch.images.storage().data();
  watch = &local;
  const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(before, after)
                                                     .needsInputs(true)
                                                     .needsOutputs(true)
                                                     .scopes({at::RecordScope::FUNCTION}));
  try {
    const at::NoGradGuard no_gradients;
    accumulate_gradients(model, batch, options);
  } catch (...) {
    at::removeCallback(handle);
    watch = nullptr;
    model.discard_statistics();
    throw;
  }
  at::removeCallback(handle);
  watch = nullptr;
  model.discard_statistics();
  return local.found;
}

NanReport write_nan_report(TrainState& state, const Batch& batch, const StepResult& result,
                           const NanReportOptions& options) {
  const std::filesystem::path folder = options.model_dir / "nan_report";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw DataError(fmt::format("{}: cannot be made: {}", folder.string(), error.message()));

  nlohmann::ordered_json report;
  report["message"] = "LossTensor is inf or nan.";
  report["step"] = state.step;
  report["learning_rate"] = result.learning_rate;
  report["losses"] = nlohmann::json::object();
  report["non_finite_losses"] = report["non_finite_gradients"] = report["non_finite_variables"] =
      nlohmann::json::array();
  for (const NamedScalar& loss : result.losses) {
    const double value = loss.value.item<double>();
    report["losses"][loss.name] = number(value);
    if (!std::isfinite(value)) report["non_finite_losses"].push_back(loss.name);
  }
  for (const auto& [name, tensor] : models::variables(*state.model)) {
    if (has_non_finite(tensor)) report["non_finite_variables"].push_back(name);
    if (tensor.requires_grad() && has_non_finite(tensor.grad())) report["non_finite_gradients"].push_back(name);
  }
  const NonFinite first = first_non_finite(*state.model, batch, options.step);
  report["first_non_finite_layer"] = first.operation.empty() ? nlohmann::json() : nlohmann::json(first.layer);
  report["first_non_finite_operation"] = first.operation.empty() ? nlohmann::json() : nlohmann::json(first.operation);
  report["images"] = images_of(batch);
  report["last_finite_checkpoint"] = last_finite_checkpoint(options.model_dir, first_of_row(state));
  write_whole(folder / "report.json", json_text(report, 2) + "\n");

  const auto pictures = drawn_images(batch, options.class_names, batch.size());
  for (size_t i = 0; i < pictures.size(); ++i)
    write_whole(folder / fmt::format("image_{}.png", i), data::encode_png(pictures[i]));
  return {folder, summary(report)};
}

}  // namespace osprey::train
