#include <ATen/ATen.h>

#include <vector>

#include "data/augmentations/checks.h"
#include "osprey/data/augmentation.h"
#include "osprey/data/example_ops.h"

namespace osprey::data {
namespace {
using config::ConfigNode;

// The image twice, side by side (dimension 1) or one above the other (dimension 0), with all its objects twice.
void self_concat(Example& example, int64_t dimension) {
  const size_t count = example.boxes.size();
  std::vector<int64_t> twice(2 * count);
  for (size_t i = 0; i < twice.size(); ++i) twice[i] = static_cast<int64_t>(i % count);
  example.image = at::cat({example.image, example.image}, dimension);
  if (example.masks.defined()) {
    const at::Tensor empty = at::zeros_like(example.masks);
    const at::Tensor first = at::cat({example.masks, empty}, dimension + 1),
                     second = at::cat({empty, example.masks}, dimension + 1);
    example.masks = at::Tensor();
    select(example, twice);
    example.masks = at::cat({first, second}, 0);
  } else {
    select(example, twice);
  }
  const float shift[2] = {dimension == 0 ? 0.5f : 0.0f, dimension == 1 ? 0.5f : 0.0f};
  const float scale[2] = {1 - shift[0], 1 - shift[1]};
  for (size_t i = 0; i < example.boxes.size(); ++i) {
    const float part = i < count ? 0.0f : 1.0f;
    Box& box = example.boxes[i];
    box = {box.ymin * scale[0] + part * shift[0], box.xmin * scale[1] + part * shift[1],
           box.ymax * scale[0] + part * shift[0], box.xmax * scale[1] + part * shift[1]};
  }
  if (example.keypoints.defined()) {
    at::Tensor keypoints = example.keypoints * at::tensor({scale[0], scale[1]});
    keypoints.slice(0, static_cast<int64_t>(count)).add_(at::tensor({shift[0], shift[1]}));
    example.keypoints = keypoints;
  }
}

class SelfConcat final : public Augmentation {
 public:
  SelfConcat(float vertical, float horizontal) : vertical_(vertical), horizontal_(horizontal) {}
  void apply(Example& example, RandomDraws& draws) const override {
    if (draws.uniform(0, 1) < vertical_) self_concat(example, 0);
    if (draws.uniform(0, 1) < horizontal_) self_concat(example, 1);
  }

 private:
  float vertical_, horizontal_;
};

std::unique_ptr<Augmentation> make_self_concat(const ConfigNode<proto::RandomSelfConcatImage>& cfg) {
  check_probability(cfg, "concat_vertical_probability", cfg->concat_vertical_probability());
  check_probability(cfg, "concat_horizontal_probability", cfg->concat_horizontal_probability());
  return std::make_unique<SelfConcat>(cfg->concat_vertical_probability(), cfg->concat_horizontal_probability());
}
OSPREY_REGISTER(Augmentation, &make_self_concat);
}  // namespace
}  // namespace osprey::data
