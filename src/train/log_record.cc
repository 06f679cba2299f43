#include "osprey/train/log_record.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "osprey/base/json_text.h"

namespace osprey::train {
namespace {

/// "Loss/classification_loss" -> "classification_loss".
std::string last_part(const std::string& tag) { return tag.substr(tag.rfind('/') + 1); }

/// The short names that the log line has always had; others lose only their ending.
std::string short_name(const std::string& tag) {
  std::string name = last_part(tag);
  if (name == "total_loss") return "loss";
  if (name == "classification_loss") return "cls";
  if (name == "localization_loss") return "loc";
  if (name == "regularization_loss") return "reg";
  if (name.size() > 5 && name.compare(name.size() - 5, 5, "_loss") == 0) name.resize(name.size() - 5);
  return name;
}

}  // namespace

std::string duration_text(double seconds) {
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole >= 3600) return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
  if (whole >= 60) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}s", whole);
}

std::string log_line(const LogRecord& record) {
  std::string line = fmt::format("Step {}", record.step);
  if (record.num_steps > 0) line += fmt::format("/{} ({}%)", record.num_steps, 100 * record.step / record.num_steps);
  if (!record.losses.empty())
    line += fmt::format(" {}={:.4g}", short_name(record.losses.back().first), record.losses.back().second);
  for (size_t i = 0; i + 1 < record.losses.size(); ++i)
    line += fmt::format(" {}={:.3g}", short_name(record.losses[i].first), record.losses[i].second);
  line += fmt::format(" lr={:.4g} grad={:.3g} {:.3f}s/step {:.1f} img/s data_wait={:.0f}% mem={:.1f}GiB",
                      record.learning_rate, record.gradient_norm, record.seconds_per_step, record.images_per_second,
                      100 * record.data_wait, static_cast<double>(record.memory_bytes) / (1 << 30));
  if (record.skipped_batches > 0) line += fmt::format(" skipped={}", record.skipped_batches);
  if (record.num_steps > record.step)
    line += fmt::format(" eta={}",
                        duration_text(record.seconds_per_step * static_cast<double>(record.num_steps - record.step)));
  return line;
}

std::string metrics_line(const LogRecord& record) {
  nlohmann::ordered_json line = {{"step", record.step}};
  if (!record.losses.empty()) line["total_loss"] = record.losses.back().second;
  for (const auto& [tag, value] : record.losses) line[last_part(tag)] = value;
  line["learning_rate"] = record.learning_rate;
  line["gradient_norm"] = record.gradient_norm;
  line["seconds_per_step"] = record.seconds_per_step;
  line["images_per_second"] = record.images_per_second;
  line["data_wait"] = record.data_wait;
  line["memory_bytes"] = record.memory_bytes;
  if (record.skipped_batches > 0) line["skipped_batches"] = record.skipped_batches;
  line["wall_seconds"] = record.wall_seconds;
  return json_text(line);
}

}  // namespace osprey::train
