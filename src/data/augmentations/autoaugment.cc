#include <ATen/ATen.h>

#include "data/augmentations/autoaugment_operations.h"
#include "osprey/data/augmentation.h"
#include "osprey/data/example_ops.h"

namespace osprey::data {
namespace {
// A learnt policy: operations on whole levels, of which one list is drawn for every image; Zoph et al., "Learning Data
// Augmentation Strategies for Object Detection", 2019.
class AutoAugment final : public Augmentation {
 public:
  explicit AutoAugment(const Policy& policy) {
    for (const std::vector<PolicyStep>& steps : policy) {
      std::vector<PolicyOperation>& list = lists_.emplace_back();
      for (const PolicyStep& step : steps) list.push_back(policy_operation(step));
    }
  }
  void apply(Example& example, RandomDraws& draws) const override {
    example.image = example.image.clamp(0, 255).to(at::kByte);
    for (const PolicyOperation& operation : lists_[draws.integer(0, static_cast<int64_t>(lists_.size()))])
      operation(example, draws);
    make_float(example);
  }

 private:
  std::vector<std::vector<PolicyOperation>> lists_;
};

std::unique_ptr<Augmentation> make_autoaugment(const config::ConfigNode<proto::AutoAugmentImage>& cfg) {
  const Policy policy = policy_named(cfg->policy_name());
  if (policy.empty()) cfg.fail("policy_name", "must be v0, v1, v2, v3 or test, got \"" + cfg->policy_name() + "\"");
  return std::make_unique<AutoAugment>(policy);
}
OSPREY_REGISTER(Augmentation, &make_autoaugment);
}  // namespace
}  // namespace osprey::data
