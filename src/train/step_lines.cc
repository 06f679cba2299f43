#include "osprey/train/step_lines.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "osprey/base/atomic_file.h"
#include "osprey/base/error.h"

namespace osprey::train {

StepLines::StepLines(const std::filesystem::path& file, int64_t step) : file_(file) {
  std::string kept;
  bool dropped = false;
  {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
      const nlohmann::json record = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      const bool keep =
          record.is_object() && record.contains("step") && record["step"].is_number() && record["step"] <= step;
      if (!keep) {
        dropped = true;  // a later step, or a line that was cut off half-way
        continue;
      }
      kept += line + "\n";
      last_.clear();
      for (const auto& [name, value] : record.items())
        if (value.is_number()) last_[name] = value.get<double>();
    }
  }
  if (dropped) write_whole(file, kept);
  out_.open(file, std::ios::app);
  if (!out_) throw DataError(fmt::format("{}: cannot be written", file.string()));
}

double StepLines::last(const std::string& name) const {
  const auto found = last_.find(name);
  return found == last_.end() ? 0 : found->second;
}

void StepLines::write(const std::string& line) {
  out_ << line << std::endl;  // flushed, so that a killed run has shown what it did
  if (!out_) throw DataError(fmt::format("{}: cannot be written (is the disk full?)", file_.string()));
}

}  // namespace osprey::train
