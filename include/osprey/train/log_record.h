#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace osprey::train {

/// What one line of the log says. Losses, rate and norm are those of the step itself; times are means since the last
/// line.
struct LogRecord {
  int64_t step = 0, num_steps = 0;                     ///< num_steps 0: without end
  std::vector<std::pair<std::string, double>> losses;  ///< by tag, "Loss/total_loss" last
  double learning_rate = 0, gradient_norm = 0;
  double seconds_per_step = 0, images_per_second = 0;
  double data_wait = 0;         ///< share of the time spent waiting for batches, 0 to 1
  int64_t memory_bytes = 0;     ///< resident now; of a run on a GPU, what libtorch has reserved there
  int64_t skipped_batches = 0;  ///< left out since the training began; where there are none, nothing is said of them
  double wall_seconds = 0;      ///< since the training began, evaluations and checkpoints included
};

/// "Step 16800/150000 (11%) loss=0.788 cls=0.51 loc=0.21 reg=0.07 lr=0.0040 grad=3.1 0.412s/step 19.4 img/s
/// data_wait=3% mem=7.9GiB eta=15h14m", where batches were left out also "skipped=2"
std::string log_line(const LogRecord& record);

/// One line of metrics.jsonl: an object with `step`, `total_loss` and every other loss by the last part of its tag,
/// `learning_rate`, `gradient_norm`, `seconds_per_step`, `images_per_second`, `data_wait`, `memory_bytes`, where
/// batches were left out `skipped_batches`, and `wall_seconds`.
std::string metrics_line(const LogRecord& record);

/// "15h14m", "14m05s", "42s".
std::string duration_text(double seconds);

}  // namespace osprey::train
