#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "data/augmentations/checks.h"
#include "osprey/data/augmentation.h"
#include "osprey/data/example_ops.h"

namespace osprey::data {
namespace {
using config::ConfigNode;

// Labels in configs are ids from 1, in examples classes from 0.
class RemapLabels final : public Augmentation {
 public:
  RemapLabels(std::vector<int64_t> from, int64_t to) : from_(std::move(from)), to_(to) {}
  void apply(Example& example, RandomDraws&) const override {
    for (int64_t& label : example.classes)
      if (std::find(from_.begin(), from_.end(), label + 1) != from_.end()) label = to_ - 1;
  }

 private:
  std::vector<int64_t> from_;
  int64_t to_;
};

class DropLabel final : public Augmentation {
 public:
  DropLabel(int64_t label, float probability) : label_(label), probability_(probability) {}
  void apply(Example& example, RandomDraws& draws) const override {
    std::vector<int64_t> kept;
    for (size_t i = 0; i < example.classes.size(); ++i) {
      const bool dropped = draws.uniform(0, 1) < probability_ && example.classes[i] + 1 == label_;
      if (!dropped) kept.push_back(static_cast<int64_t>(i));
    }
    select(example, kept);
  }

 private:
  int64_t label_;
  float probability_;
};

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

std::unique_ptr<Augmentation> make_remap(const ConfigNode<proto::RemapLabels>& cfg) {
  if (cfg->new_label() < 1) cfg.fail("new_label", "must be an id of the label map, from 1");
  return std::make_unique<RemapLabels>(
      std::vector<int64_t>(cfg->original_labels().begin(), cfg->original_labels().end()), cfg->new_label());
}
std::unique_ptr<Augmentation> make_drop(const ConfigNode<proto::DropLabelProbabilistically>& cfg) {
  if (cfg->label() < 1) cfg.fail("label", "must be an id of the label map, from 1");
  check_probability(cfg, "drop_probability", cfg->drop_probability());
  return std::make_unique<DropLabel>(cfg->label(), cfg->drop_probability());
}
std::unique_ptr<Augmentation> make_self_concat(const ConfigNode<proto::RandomSelfConcatImage>& cfg) {
  check_probability(cfg, "concat_vertical_probability", cfg->concat_vertical_probability());
  check_probability(cfg, "concat_horizontal_probability", cfg->concat_horizontal_probability());
  return std::make_unique<SelfConcat>(cfg->concat_vertical_probability(), cfg->concat_horizontal_probability());
}
OSPREY_REGISTER(Augmentation, &make_remap);
OSPREY_REGISTER(Augmentation, &make_drop);
OSPREY_REGISTER(Augmentation, &make_self_concat);
}  // namespace
}  // namespace osprey::data
