#pragma once
#include <filesystem>
#include <string>

namespace osprey::train {

/// The model directory of a run, held for as long as this lives, so that two trainings never share one.
///
/// Made where it is not there. The lock is the system's (`flock` on `<model_dir>/.lock`): it ends with the process,
/// however that ends.
/// throws DataError naming the folder: held by another run (with its process id), cannot be made or written, or without
///        room for `needed_bytes`
class RunDirectory {
 public:
  explicit RunDirectory(std::filesystem::path folder, int64_t needed_bytes = 0);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  const std::filesystem::path& path() const { return folder_; }

 private:
  std::filesystem::path folder_;
  int lock_ = -1;
};

/// Throws ConfigError where a fine-tuning checkpoint lies in the model directory itself: the run would be taken for a
/// resume of that one.
void refuse_own_directory(const std::filesystem::path& model_dir, const std::filesystem::path& fine_tune_checkpoint);

}  // namespace osprey::train
