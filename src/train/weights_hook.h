#pragma once
#include <cstdint>
#include <filesystem>

#include "osprey/train/hook.h"

namespace osprey::train {

/// Writes the weights alone, at multiples of some step and at the end: averaged ones where the run keeps averages.
/// Files are checkpoints to evaluate, export and start from, with what describes them beside; no run goes on from them.
class WeightsHook final : public Hook {
 public:
  /// folder  in that of the training; is made where it is missing
  /// every   steps; > 0
  /// throws  DataError where the folder cannot be made; `after_step` where a file cannot be written
  WeightsHook(std::filesystem::path folder, int64_t every);

  void after_step(const StepEvent& event) override;

 private:
  std::filesystem::path folder_;
  int64_t every_;
};

}  // namespace osprey::train
