#include "data/augmentations/checks.h"
#include "osprey/data/augmentation.h"
#include "osprey/data/example_ops.h"

namespace osprey::data {
namespace {
using Permutation = std::vector<int64_t>;

// With a probability, one of the operations that only move whole pixels.
class RandomTurn final : public Augmentation {
 public:
  using Turn = void (*)(Example&, const Permutation&);
  RandomTurn(Turn turn, float probability, Permutation permutation)
      : turn_(turn), probability_(probability), permutation_(std::move(permutation)) {}
  void apply(Example& example, RandomDraws& draws) const override {
    if (draws.uniform(0, 1) < probability_) turn_(example, permutation_);
  }

 private:
  Turn turn_;
  float probability_;
  Permutation permutation_;
};

template <class Values>
Permutation permutation_of(const config::Node& node, const char* field, const Values& values) {
  Permutation permutation(values.begin(), values.end());
  std::vector<bool> seen(permutation.size(), false);
  for (int64_t value : permutation) {
    if (value < 0 || value >= static_cast<int64_t>(seen.size()) || seen[value])
      node.fail(field, "must name every keypoint once");
    seen[value] = true;
  }
  return permutation;
}

std::unique_ptr<Augmentation> make_horizontal_flip(const config::ConfigNode<proto::RandomHorizontalFlip>& cfg) {
  check_probability(cfg, "probability", cfg->probability());
  return std::make_unique<RandomTurn>(
      &flip_horizontal, cfg->probability(),
      permutation_of(cfg, "keypoint_flip_permutation", cfg->keypoint_flip_permutation()));
}
std::unique_ptr<Augmentation> make_vertical_flip(const config::ConfigNode<proto::RandomVerticalFlip>& cfg) {
  check_probability(cfg, "probability", cfg->probability());
  return std::make_unique<RandomTurn>(
      &flip_vertical, cfg->probability(),
      permutation_of(cfg, "keypoint_flip_permutation", cfg->keypoint_flip_permutation()));
}
std::unique_ptr<Augmentation> make_rotation(const config::ConfigNode<proto::RandomRotation90>& cfg) {
  check_probability(cfg, "probability", cfg->probability());
  return std::make_unique<RandomTurn>(&rotate90, cfg->probability(),
                                      permutation_of(cfg, "keypoint_rot_permutation", cfg->keypoint_rot_permutation()));
}
OSPREY_REGISTER(Augmentation, &make_horizontal_flip);
OSPREY_REGISTER(Augmentation, &make_vertical_flip);
OSPREY_REGISTER(Augmentation, &make_rotation);
}  // namespace
}  // namespace osprey::data
