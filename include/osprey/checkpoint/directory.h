#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "osprey/checkpoint/checkpoint.h"

namespace osprey::checkpoint {

/// A checkpoint file of a model directory.
struct Entry {
  int64_t step = 0;
  std::filesystem::path file;
};

/// The checkpoints in a folder, earliest step first; empty where there are none or no such folder.
std::vector<Entry> list(const std::filesystem::path& folder);

/// Those from step `first` to step `last`, both included.
/// throws  CheckpointError where there is none, with the steps that there are
std::vector<Entry> list_between(const std::filesystem::path& folder, int64_t first, int64_t last);

/// The newest checkpoint of a folder: the one that its `checkpoint` file names, else the one with the highest step.
std::optional<Entry> latest(const std::filesystem::path& folder);

/// The file that a user means by `path`: a checkpoint file, the same without its extension ("dir/ckpt-100"), a folder,
/// whose newest checkpoint is taken, or what `tensorflow_prefix` takes.
///
/// throws  CheckpointError naming the path: nothing there (ExitCode::kData), or files of TensorFlow that are no
///         checkpoint (ExitCode::kUsage)
std::filesystem::path resolve(const std::filesystem::path& path);

/// Copies what describes the checkpoints of a training, where it is there, into another folder of such: pipeline.config
/// and label_map.pbtxt. (Copies, not links: people edit these in place.)
/// throws  DataError where a file cannot be written
void copy_description(const std::filesystem::path& model_dir, const std::filesystem::path& folder);

/// Which checkpoints stay.
struct Retention {
  int64_t keep_last = 7;              ///< how many of the newest; at least 1
  double keep_every_n_hours = 0;      ///< one in each such span of time is kept for ever; 0: none
  int64_t keep_every_n_steps = 0;     ///< those whose step is a multiple are kept for ever; 0: none
  int64_t regular_every_n_steps = 0;  ///< keep_last counts only multiples, and others go when the next comes; 0: all
};

/// Writes the checkpoints of one run and removes those that need not stay.
///
/// Beside the files it keeps the text file `checkpoint`, in TensorFlow's form: the newest one's name, all names, and
/// the times that `keep_every_n_hours` needs. Only files named ckpt-<step>.osprey are ever removed, and only after a
/// newer one is safely on disk.
class Directory {
 public:
  Directory(std::filesystem::path folder, Retention retention) : folder_(std::move(folder)), retention_(retention) {}

  /// Writes ckpt-<step>.osprey, then the `checkpoint` file, then removes what `Retention` lets go. A file of that step
  /// is replaced. Returns the file.
  /// now  seconds since 1970; a parameter for the tests' sake
  /// throws DataError; whatever was there before is still there
  std::filesystem::path save(int64_t step, const Checkpoint& content, double now);

  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
  Retention retention_;
};

/// What a metric should become.
struct MetricGoal {
  std::string metric;  ///< its name, as in TensorBoard
  bool higher_is_better = true;
  double min_delta = 0;  ///< a value that is better by no more than this does not beat another

  /// Whether `value` beats the best so far. One that is not a number never does; any other beats none at all.
  bool beats(double value, const std::optional<double>& best) const;
};

/// Keeps the checkpoint with the best value of a metric in `<model_dir>/best`.
class BestKeeper {
 public:
  /// Reads the best value so far from best/best.json; a missing file means none.
  BestKeeper(const std::filesystem::path& model_dir, MetricGoal goal);

  /// Copies `file` (a hard link where possible) to `best/` if `value` beats the best so far, with the run's
  /// pipeline.config and label_map.pbtxt, so that the folder serves by itself, and removes the former best. Returns
  /// whether it was taken.
  ///
  /// throws  DataError; the former best is still there
  bool offer(const std::filesystem::path& file, int64_t step, double value);

  const std::string& metric() const { return goal_.metric; }
  std::optional<double> best() const { return best_; }

 private:
  std::filesystem::path folder_;
  MetricGoal goal_;
  std::optional<double> best_;
};

}  // namespace osprey::checkpoint
