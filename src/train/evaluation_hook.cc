#include "train/evaluation_hook.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "osprey/base/clock.h"
#include "osprey/base/json_text.h"

namespace osprey::train {

void EvaluationHook::after_evaluation(const EvaluationEvent& event) {
  nlohmann::ordered_json line = {{"step", event.state.step}};
  if (steps_per_epoch_ > 0) line["epoch"] = static_cast<double>(event.state.step) / steps_per_epoch_;
  line["wall_seconds"] = now() - started_;
  line["evaluation_seconds"] = event.seconds;
  nlohmann::ordered_json& metrics = line["metrics"] = nlohmann::ordered_json::object();
  for (const auto& [name, value] : event.metrics)
    metrics[name] = std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
  write_(json_text(line));
}

}  // namespace osprey::train
