#pragma once
#include <functional>
#include <optional>

#include "osprey/train/trainer.h"
#include "train/device_feed.h"
#include "train/lagging_copy.h"

namespace osprey::train {

/// What becomes of steps whose loss or whose gradients are not finite. They change nothing; a device that finds one
/// makes no step after it either until it is asked. Replicas all find the same, at the same moment.
class NonFiniteSteps {
 public:
  /// None of the arguments may move while this lives. The run begins here.
  NonFiniteSteps(const TrainerParts& parts, const TrainerOptions& options, DeviceFeed& feed);

  /// Whether all steps could be made, the one of `result` included. A device is asked every options.look_every_n steps,
  /// where batches are left out also every ten, and answers with the next one.
  /// at_once  it has to answer for this step
  bool all_made(const StepResult& result, bool at_once);

  enum class Next {
    kGoOn,        ///< with the next step; the batch of this one is left out
    kStepsAgain,  ///< the same, but hooks have seen later steps, which come again
    kRollBack,    ///< the run has to go back to a checkpoint; the state is that before the step
  };
  /// After `all_made` was false: the state goes back to the first step that could not be made.
  ///
  /// batch, result  of the last step; result becomes that of the first that could not be made, if that was the last
  /// make_room      is called where there is something to report, which takes memory
  /// throws   DivergedError where the run is to end; the state is that before the step
  Next handle(Batch batch, StepResult& result, const std::function<void()>& make_room);

 private:
  bool may_roll_back() const;
  std::string report(const Batch& batch, StepResult& result, bool once_more) const;
  std::string why_it_ends(int64_t in_a_row) const;
  void warn(const Batch& batch, const std::string& consequence) const;

  const TrainerParts& parts_;
  const TrainerOptions& options_;
  TrainState& state_;
  DeviceFeed& feed_;
  int64_t first_step_;                ///< from which healthy_steps counts
  std::optional<LaggingCopy> asked_;  ///< whether all went well, on its way from the device
};

}  // namespace osprey::train
