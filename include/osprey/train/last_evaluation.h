#pragma once
#include <cstdint>
#include <filesystem>

namespace osprey::train {

/// The last evaluation inside a run that was made and heeded: its metrics have been offered to whoever wants them. Its
/// step lies in <model_dir>/eval/last_in_training.json, so that a run that goes on knows whether one was lost; the
/// metrics' own file does not tell, since it may be of a run that has been gone back behind, or of eval_detector.
class LastEvaluation {
 public:
  /// Forgets one after `step`, where the run goes on: it comes again.
  LastEvaluation(const std::filesystem::path& model_dir, int64_t step);

  bool is_of(int64_t step) const { return step_ == step; }
  /// throws  DataError where that cannot be written
  void set(int64_t step);

 private:
  std::filesystem::path file_;
  int64_t step_ = 0;  ///< 0: none
};

}  // namespace osprey::train
