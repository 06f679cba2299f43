#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "osprey/eval/at_iou_50.h"

namespace osprey::eval {

/// Writes a TensorBoard event file, events.out.tfevents.<seconds>.<host>.<pid>.<n>, into a directory that is made where
/// it is not there. Every start of a program begins a new file; TensorBoard joins them.
///
///     EventWriter events(model_dir + "/train");
///     events.scalar("Loss/total_loss", 0.79, step);
///
/// Thread safe. Events are handed to the system at `flush` and when the writer is destroyed.
/// throws  DataError where the directory or file cannot be written; a full disk shows at `flush`
class EventWriter {
 public:
  explicit EventWriter(const std::string& directory);
  ~EventWriter();
  EventWriter(EventWriter&&) noexcept;
  EventWriter& operator=(EventWriter&&) noexcept;

  void scalar(const std::string& tag, double value, int64_t step);

  /// counted  as HistogramBuckets::count (histogram.h) gives it; where it is on a device, that is waited for
  void histogram(const std::string& tag, const at::Tensor& counted, int64_t step);

  /// image  [H, W, 3] uint8 RGB; stored as PNG
  void image(const std::string& tag, const at::Tensor& image, int64_t step);

  /// An image that is already encoded as PNG or JPEG.
  void encoded_image(const std::string& tag, const std::string& bytes, int64_t height, int64_t width, int64_t step);

  /// A curve of TensorBoard's PR CURVES page.
  /// counts  [T] at the thresholds 0, 1 / (T - 1), ..., 1
  void precision_recall(const std::string& tag, const std::vector<DetectionCounts>& counts, int64_t step);

  void flush();
  const std::string& path() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace osprey::eval
