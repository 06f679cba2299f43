#include "osprey/train/last_evaluation.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "osprey/base/atomic_file.h"
#include "osprey/base/json_text.h"

namespace osprey::train {
namespace fs = std::filesystem;

LastEvaluation::LastEvaluation(const fs::path& model_dir, int64_t step)
    : file_(model_dir / "eval" / "last_in_training.json") {
  std::ifstream in(file_);
  if (!in) return;
  const nlohmann::json record = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (record.is_object()) step_ = integer_of(record, "step");
  if (step_ <= step) return;
  step_ = 0;
  std::error_code ignored;
  fs::remove(file_, ignored);
}

void LastEvaluation::set(int64_t step) {
  step_ = step;
  fs::create_directories(file_.parent_path());
  write_whole(file_, json_text(nlohmann::json({{"step", step}})) + "\n");
}

}  // namespace osprey::train
