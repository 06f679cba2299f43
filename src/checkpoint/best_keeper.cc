#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoint/index_file.h"
#include "osprey/base/atomic_file.h"
#include "osprey/base/error.h"
#include "osprey/base/json_text.h"
#include "osprey/checkpoint/directory.h"

namespace osprey::checkpoint {
namespace fs = std::filesystem;
namespace {

/// The copy appears whole or not at all.
void copy_whole(const fs::path& from, const fs::path& to) {
  std::error_code error;
  const fs::path temporary = to.string() + ".tmp";
  fs::copy_file(from, temporary, fs::copy_options::overwrite_existing, error);
  if (!error) fs::rename(temporary, to, error);
  if (error) {
    const std::string reason = error.message();
    fs::remove(temporary, error);
    throw DataError(fmt::format("{}: cannot be written: {}", to.string(), reason));
  }
}

/// The same bytes under another name.
void link_or_copy(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::remove(to, error);
  fs::create_hard_link(from, to, error);
  if (error) copy_whole(from, to);
}

}  // namespace

void copy_description(const fs::path& model_dir, const fs::path& folder) {
  std::error_code error;
  for (const char* name : {"pipeline.config", "label_map.pbtxt"})
    if (const fs::path original = model_dir / name; fs::exists(original, error)) copy_whole(original, folder / name);
}

bool MetricGoal::beats(double value, const std::optional<double>& best) const {
  if (!std::isfinite(value)) return false;
  return !best || (higher_is_better ? value > *best + min_delta : value < *best - min_delta);
}

BestKeeper::BestKeeper(const fs::path& model_dir, MetricGoal goal)
    : folder_(model_dir / "best"), goal_(std::move(goal)) {
  std::ifstream in(folder_ / "best.json");
  if (!in) return;
  const nlohmann::json record = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  // A value of another metric cannot be compared with; the first offer starts anew.
  if (record.is_object() && text_of(record, "metric") == metric() && record.contains("value") &&
      record["value"].is_number())
    best_ = record["value"].get<double>();
}

bool BestKeeper::offer(const fs::path& file, int64_t step, double value) {
  if (!goal_.beats(value, best_)) return false;
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw DataError(fmt::format("{}: cannot be made: {}", folder_.string(), error.message()));

  copy_description(folder_.parent_path(), folder_);
  const std::vector<Entry> former = list(folder_);
  link_or_copy(file, folder_ / file.filename());
  IndexFile index;
  index.newest = file.stem();
  index.all.push_back({index.newest, 0});
  write_whole(folder_ / "checkpoint", index.text());
  write_whole(folder_ / "best.json",
              json_text(nlohmann::json({{"metric", metric()}, {"value", value}, {"step", step}}), /*indent=*/2) + "\n");
  for (const Entry& entry : former)
    if (entry.step != step) fs::remove(entry.file, error);
  best_ = value;
  return true;
}

}  // namespace osprey::checkpoint
