#include "osprey/train/early_stopping.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "osprey/base/atomic_file.h"
#include "osprey/base/json_text.h"

namespace osprey::train {

EarlyStopping::EarlyStopping(const std::filesystem::path& model_dir, checkpoint::MetricGoal goal, int64_t patience,
                             int64_t step, std::optional<double> target)
    : file_(model_dir / "early_stopping.json"), goal_(std::move(goal)), patience_(patience), target_(target) {
  std::ifstream in(file_);
  if (!in) return;
  const nlohmann::json record = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (!record.is_object() || text_of(record, "metric") != goal_.metric || !record.contains("evaluations")) return;
  for (const nlohmann::json& entry : record["evaluations"]) {
    if (!entry.is_object() || !entry.contains("step") || !entry["step"].is_number_integer()) continue;
    const auto at = entry["step"].get<int64_t>();
    const bool is_number = entry.contains("value") && entry["value"].is_number();
    values_[at] = is_number ? entry["value"].get<double>() : std::numeric_limits<double>::quiet_NaN();
  }
  if (std::erase_if(values_, [&](const auto& value) { return value.first > step; }) > 0) write();
}

void EarlyStopping::add(int64_t step, double value) {
  values_[step] = value;
  write();
}

void EarlyStopping::write() const {
  nlohmann::ordered_json record;
  record["metric"] = goal_.metric;
  record["evaluations"] = nlohmann::json::array();
  for (const auto& [at, found] : values_)
    record["evaluations"].push_back(
        {{"step", at}, {"value", std::isfinite(found) ? nlohmann::ordered_json(found) : nlohmann::ordered_json()}});
  write_whole(file_, json_text(record, /*indent=*/2) + "\n");
}

std::string EarlyStopping::reason() const {
  std::optional<double> best;
  int64_t best_step = 0, without = 0;
  for (const auto& [step, value] : values_) {
    ++without;
    if (target_ && (goal_.higher_is_better ? value >= *target_ : value <= *target_))
      return fmt::format("{} has reached {:g}: it is {:.4f} at step {}", metric(), *target_, value, step);
    if (!goal_.beats(value, best)) continue;
    best = value;
    best_step = step;
    without = 0;
  }
  if (patience_ == 0 || without < patience_) return "";
  const std::string since = fmt::format("in {} evaluation{} {} has not ", without, without == 1 ? "" : "s", metric());
  if (!best) return since + "had a value";
  const std::string by = goal_.min_delta > 0 ? fmt::format("by more than {:g} ", goal_.min_delta) : "";
  return fmt::format("{}improved {}on the best so far, {:.4f} at step {}", since, by, *best, best_step);
}

}  // namespace osprey::train
