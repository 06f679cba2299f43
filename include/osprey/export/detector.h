#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "osprey/core/detections.h"

namespace osprey {

/// An exported model, ready for pictures of any size.
///
///     osprey::Detector detector("exported");
///     for (const auto& found : detector.detect(osprey::data::decode_image(bytes), 0.5)) ...
///
/// Needs the folder that export_model wrote and nothing of the training set-up. Not for several threads at once.
class Detector {
 public:
  /// folder  holds model.pt, model_card.json and label_map.pbtxt
  /// device  "cpu", "cuda", "cuda:1"
  /// throws  DataError naming the file that is missing or damaged
  explicit Detector(const std::string& folder, const std::string& device = "cpu");
  ~Detector();
  Detector(Detector&&) noexcept;

  /// The detections of one picture with a score of at least `min_score`, best first.
  /// image   [H, W, 3] uint8 RGB, any H and W
  /// throws  c10::Error for another shape or type
  std::vector<Detection> detect(const at::Tensor& image, double min_score = 0) const;

  /// As above for many pictures, in their order; those of equal size that lie next to each other share a batch.
  std::vector<std::vector<Detection>> detect(const std::vector<at::Tensor>& images, double min_score = 0) const;

  /// The batch size the model was exported with.
  int64_t batch_size() const;
  /// The step of the checkpoint that it was made of.
  int64_t step() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace osprey
