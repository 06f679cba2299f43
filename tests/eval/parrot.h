// A stand-in detector that is told what to find, on batches made by hand.
#pragma once
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "osprey/boxes/non_max_suppression.h"
#include "osprey/eval/evaluator.h"

namespace osprey::eval {

inline const std::vector<Category> kCategories = {{1, "cat"}, {2, "dog"}};

// Says what `answer` makes of the batch it was shown.
class Parrot : public models::DetectionModel {
 public:
  explicit Parrot(std::function<Detections(const Batch&)> answer) : answer_(std::move(answer)) {}
  models::ModelInput preprocess(const Batch& batch) override {
    batch_ = batch;
    EXPECT_FALSE(is_training());
    return {batch.images.to(at::kFloat), batch.true_shapes, {}};
  }
  Predictions predict(const models::ModelInput&) override { return {}; }
  Losses loss(const Predictions&, const Batch& batch) override {
    return {{{"Loss/classification_loss", batch.image_weights.sum() * 3}}, batch.image_weights.sum()};
  }
  Detections postprocess(const Predictions&, const at::Tensor&) override { return answer_(batch_); }
  models::Candidates candidates(const Predictions&) override { return {}; }
  const boxes::NmsOptions& nms_options() const override { return nms_; }
  at::Tensor regularization_loss() override { return at::zeros({}); }
  std::vector<nn::RegularizedWeight> regularized_weights() const override { return {}; }
  std::map<std::string, std::string> restore_map(models::RestoreType) const override { return {}; }
  void commit_statistics(const at::Tensor&) override {}
  void discard_statistics() override {}
  int64_t num_classes() const override { return 2; }
  std::array<int64_t, 2> input_size() const override { return {8, 8}; }

 private:
  std::function<Detections(const Batch&)> answer_;
  Batch batch_;
  boxes::NmsOptions nms_;
};

inline Detections truth_itself(const Batch& batch) {
  return {batch.boxes, at::full({batch.size(), batch.boxes.size(1)}, 0.9), batch.classes, batch.valid.sum(1)};
}
inline Detections nothing(const Batch& batch) {
  Detections found = truth_itself(batch);
  found.count = at::zeros({batch.size()}, at::kLong);
  return found;
}

class ListSource final : public data::BatchSource {
 public:
  ListSource(std::vector<Batch> batches, int64_t examples) : batches_(std::move(batches)), examples_(examples) {}
  std::optional<Batch> next() override {
    if (at_ == static_cast<int64_t>(batches_.size())) return std::nullopt;
    return batches_[at_++];
  }
  void seek(int64_t index) override { at_ = index; }
  int64_t position() const override { return at_; }
  int64_t num_examples() const override { return examples_; }

 private:
  std::vector<Batch> batches_;
  int64_t examples_, at_ = 0;
};

// Two images of 1000 x 2000 pixels, each with one object of 100 x 200 (large by COCO's measure) and one row of padding.
inline Batch batch_of_two(const std::string& first_id = "7", const std::string& second_id = "9") {
  Batch batch;
  batch.images = at::full({2, 3, 8, 8}, 50, at::kByte);
  batch.true_shapes = at::full({2, 2}, 8, at::kLong);
  batch.original_sizes = at::tensor({1000, 2000, 1000, 2000}, at::kLong).view({2, 2});
  batch.boxes = at::zeros({2, 2, 4});
  batch.boxes.select(1, 0).copy_(at::tensor({0.1, 0.1, 0.2, 0.2}, at::kFloat));
  batch.classes = at::zeros({2, 2}, at::kLong);
  batch.valid = at::tensor({1, 0, 1, 0}, at::kLong).view({2, 2}).to(at::kBool);
  batch.image_weights = at::ones({2});
  batch.ids = {first_id, second_id};
  return batch;
}

inline EvaluationResult run(const std::function<Detections(const Batch&)>& answer, const std::vector<Batch>& batches,
                            int64_t examples, const EvaluationOptions& options = {}) {
  Parrot model(answer);
  ListSource source(batches, examples);
  return evaluate(model, source, kCategories, options);
}

}  // namespace osprey::eval
