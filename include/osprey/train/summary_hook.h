#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "osprey/eval/event_writer.h"
#include "osprey/eval/histogram.h"
#include "osprey/train/hook.h"
#include "osprey/train/log_record.h"

namespace osprey::train {

/// The pictures of a batch as a person sees them: cut to what is not padding, boxes drawn with the names of their
/// classes.
///
/// class_names  by 0-based class; a class beyond them is shown by its number
/// max_images   the first so many
/// returns      [H, W, 3] uint8 each, on the CPU
std::vector<at::Tensor> drawn_images(const Batch& batch, const std::vector<std::string>& class_names,
                                     int64_t max_images);

/// Writes scalars of a record to TensorBoard: every loss, learning_rate, steps_per_sec, images_per_sec, gradient_norm.
void write_scalars(eval::EventWriter& events, const LogRecord& record);

/// The heavier summaries, on a timer: a histogram of every variable and the input images of the batch with their boxes.
/// A device is not waited for: what it has counted is written with a later step, under the number of its own.
class SummaryHook final : public Hook {
 public:
  /// every_seconds  wall-clock time between two of them; the first comes after the first step. 0 or less: never
  SummaryHook(eval::EventWriter& events, double every_seconds, std::vector<std::string> class_names);
  ~SummaryHook() override;

  void after_step(const StepEvent& event) override;
  void after_evaluation(const EvaluationEvent&) override { write(); }
  void after_going_back(const TrainState& state) override;

 private:
  struct Pending;

  void begin(const StepEvent& event);
  void write();

  eval::EventWriter& events_;
  double every_seconds_, next_ = 0;
  std::vector<std::string> class_names_;
  std::optional<eval::HistogramBuckets> buckets_;
  std::unique_ptr<Pending> pending_;
};

}  // namespace osprey::train
